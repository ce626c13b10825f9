package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// exam is one check's look at one node. What is asked of a node is asked once.
type exam struct {
	*Patient
	Node

	check string
	shown string // the node's address, if there are several
	facts *facts
	found *[]Finding
}

// facts are what a node has said.
type facts struct {
	info    map[string]string
	infoErr error
	asked   bool
	config  map[string]fact
}

type fact struct {
	value string
	err   error
}

func (e *exam) tell(level Level, remedy, what string, args ...any) {
	*e.found = append(*e.found, Finding{Check: e.check, Node: e.shown, Level: level, What: fmt.Sprintf(what, args...), Remedy: remedy})
}

func (e *exam) ok(what string, args ...any) { e.tell(OK, "", what, args...) }

func (e *exam) warn(remedy, what string, args ...any) { e.tell(Warn, remedy, what, args...) }

func (e *exam) fail(remedy, what string, args ...any) { e.tell(Fail, remedy, what, args...) }

// unsure says that Redis would not tell.
func (e *exam) unsure(err error, otherwise string) {
	e.tell(Unsure, otherwise, "could not ask: %s", reason(err))
}

// reason is an error in one line.
func reason(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// errUntold says that a server does not know a setting.
var errUntold = errors.New("the server does not name it")

// asks is who asks what the proxy need not know.
func (e *exam) asks() *redis.Client {
	if e.Operator != nil {
		return e.Operator
	}
	return e.Redis
}

// info is a field of INFO; "" if the server does not have it.
func (e *exam) info(ctx context.Context, field string) (string, error) {
	f := e.facts
	if !f.asked {
		f.asked = true
		var text string
		if text, f.infoErr = e.asks().Info(ctx).Result(); f.infoErr == nil {
			f.info = fieldsOf(text)
		}
	}
	return f.info[field], f.infoErr
}

// number is a field of INFO that is a whole number; 0 if the server does not have it.
func (e *exam) number(ctx context.Context, field string) (int64, error) {
	text, err := e.info(ctx, field)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n, err
}

func fieldsOf(info string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// setting is a value of CONFIG GET.
func (e *exam) setting(ctx context.Context, name string) (string, error) {
	if known, ok := e.facts.config[name]; ok {
		return known.value, known.err
	}
	all, err := e.asks().ConfigGet(ctx, name).Result()
	value, there := all[name]
	if err == nil && !there {
		err = errUntold
	}
	e.facts.config[name] = fact{value, err}
	return value, err
}

// settingNumber is a value of CONFIG GET that is a whole number.
func (e *exam) settingNumber(ctx context.Context, name string) (int64, error) {
	text, err := e.setting(ctx, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// refused reports whether Redis itself said no, rather than that it could not be asked.
func refused(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}
