package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// What the proxy says of sessions, for people and their tools.

const (
	showWaiters = 10   // of those in line, so many are named
	listMost    = 1000 // holds that FENCE.LIST names
	listTime    = 5 * time.Second
)

// answer is a reply of names and values: a map in RESP3, the same flat in RESP2.
type answer struct {
	pairs int
	body  []byte
	resp3 bool
}

func (c *client) answering() *answer { return &answer{resp3: c.state.proto == 3} }

func (a *answer) name(name string) {
	a.pairs++
	a.body = resp.AppendBulkString(a.body, name)
}

func (a *answer) text(name, value string) {
	a.name(name)
	a.body = resp.AppendBulkString(a.body, value)
}

func (a *answer) number(name string, n int64) {
	a.name(name)
	a.body = resp.AppendInt(a.body, n)
}

// value adds a value that is encoded already.
func (a *answer) value(name string, encoded []byte) {
	a.name(name)
	a.body = append(a.body, encoded...)
}

func (a *answer) bytes() []byte { return append(resp.AppendMap(nil, a.pairs, a.resp3), a.body...) }

// inspect is FENCE.INSPECT.
func (c *client) inspect(key []byte) error {
	sub, err := c.subjectOf(key)
	if err != nil {
		return err
	}
	if refusal, _, err := c.mayTouch(sub.key, nil, 0); refusal != nil || err != nil {
		return c.inItsWords(refusal, err)
	}
	ctx, cancel := asking()
	defer cancel()
	i, err := c.srv.locks.Inspect(ctx, sub.record, showWaiters)
	if err != nil {
		return &downError{sub.record.String(), err}
	}
	a := c.answering()
	a.text("rule", sub.rule.Name)
	a.text("session", sub.record.Session)
	a.number("db", int64(sub.record.DB))
	a.number("grant", int64(i.Token.Grant))
	a.number("stored_grant", int64(i.Token.StoredGrant))
	a.number("stored_seq", int64(i.Token.StoredSeq))
	a.text("provider", i.Token.Provider)
	a.value("holder", c.holder(i.Holder, i.LeaseLeft))
	a.number("waiting", int64(i.Waiting+c.srv.locks.Asking(sub.record)))
	line := resp.AppendArray(nil, len(i.First))
	for _, id := range i.First {
		w := c.answering()
		w.identity(id)
		line = append(line, w.bytes()...)
	}
	a.value("waiters", line)
	return c.local(a.bytes())
}

func (a *answer) identity(id tokenstore.Identity) {
	a.text("proxy", id.Proxy)
	a.text("client", id.Client)
	a.text("name", id.Name)
}

// holder says who holds a session, null if nobody does.
func (c *client) holder(h tokenstore.Holder, left time.Duration) []byte {
	if !h.Held() {
		return resp.AppendNull(nil, c.state.proto == 3)
	}
	a := c.answering()
	a.identity(h.Identity)
	a.number("grant", int64(h.Grant))
	a.text("since", h.Since.UTC().Format(time.RFC3339))
	a.number("lease_left", left.Milliseconds())
	return a.bytes()
}

// listHolds is FENCE.LIST.
func (c *client) listHolds(args [][]byte) error {
	name := ""
	switch {
	case len(args) > 2:
		return wordError("ERR syntax error")
	case len(args) == 2:
		if name = string(args[1]); !c.knowsRule(name) {
			return wordError(fmt.Sprintf("ERR no rule is named %q", clip(args[1])))
		}
	}
	if refusal, err := c.mayScan(); refusal != nil || err != nil {
		return c.inItsWords(refusal, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	holds, complete, err := c.srv.store.Holds(ctx, c.state.db, name, listMost)
	if err != nil {
		return &downError{"holds", err}
	}
	if c.srv.clustered {
		holds = onceEach(holds)
	}
	list := resp.AppendArray(nil, len(holds))
	for i := range holds {
		h, a := &holds[i], c.answering()
		a.text("rule", h.Rule)
		a.text("session", h.Session)
		a.value("holder", c.holder(h.Holder, h.LeaseLeft))
		list = append(list, a.bytes()...)
	}
	a := c.answering()
	a.value("holds", list)
	a.number("complete", number(complete))
	return c.local(a.bytes())
}

// onceEach leaves one hold of each session: one that spans slots has a record in several, and one more that says less.
func onceEach(holds []tokenstore.Hold) []tokenstore.Hold {
	type name struct{ rule, session string }
	at := map[name]int{}
	var each []tokenstore.Hold
	for n := range holds {
		of := name{holds[n].Rule, holds[n].Session}
		i, known := at[of]
		switch {
		case !known:
			at[of] = len(each)
			each = append(each, holds[n])
		case each[i].Slot == "":
			each[i] = holds[n]
		}
	}
	return each
}

func (c *client) knowsRule(name string) bool {
	if name == rule.Unguarded {
		return true
	}
	for _, r := range c.srv.rules.now().set.Rules() {
		if r.Name == name {
			return true
		}
	}
	return false
}

// explain is FENCE.EXPLAIN.
func (c *client) explain(key []byte) error {
	sub, err := c.subjectOf(key)
	if err != nil {
		return err
	}
	if refusal, _, err := c.mayTouch(sub.key, nil, 0); refusal != nil || err != nil {
		return c.inItsWords(refusal, err)
	}
	r, a := sub.rule, c.answering()
	mode, owner, why := string(r.Mode), string(r.Owner), fmt.Sprintf("the prefix %q of the rule is the longest that fits the key", r.Prefix)
	if r == c.srv.bare {
		mode, owner, why = string(rule.ModePass), "", "no rule's prefix fits the key: what is said about it is not fenced, but for FENCE.*"
		if exempt := c.srv.rules.Match(key); exempt != nil {
			why = fmt.Sprintf("rule %q exempts the prefix %q: what is said about the key is not fenced, but for FENCE.*", exempt.Name, exempt.Prefix)
		}
	}
	a.text("rule", r.Name)
	a.text("session", sub.record.Session)
	a.text("mode", mode)
	a.text("why", why)
	a.text("owner", owner)
	a.text("acts_as", c.actsAs(sub))
	a.text("wait", rule.Text(r.Wait))
	a.text("lease", rule.Text(r.Lease))
	a.text("max_hold", rule.Text(r.MaxHold))
	a.text("durability", r.Durability.String())
	a.value("learned", c.learned(r))
	return c.local(a.bytes())
}

// learned says what mode auto knows of this client's reads: which commands lock, since writes have followed them.
func (c *client) learned(r *rule.Rule) []byte {
	var body []byte
	n := 0
	all := c.srv.locks.Learnt()
	slices.SortFunc(all, func(a, b lock.Learnt) int { return strings.Compare(a.Command, b.Command) })
	for _, l := range all {
		if l.Rule != r.Name || l.Client != c.label() {
			continue
		}
		a := c.answering()
		a.text("command", l.Command)
		a.number("locks", number(l.Locks))
		a.number("reads", int64(l.Reads))
		a.number("written_percent", int64(100*l.Share+0.5))
		a.number("written_after_ms", l.Delay.Milliseconds())
		body = append(body, a.bytes()...)
		n++
	}
	return append(resp.AppendArray(nil, n), body...)
}

// actsAs says as whom the client acts on a session, and how far it is.
func (c *client) actsAs(sub subject) string {
	session := []byte(sub.record.Session)
	if s := c.underGrant(sub.rule, sub.record.Area, session); s != nil {
		return fmt.Sprintf("whoever has grant %d, which this connection has acquired", s.Grant())
	}
	if sub.rule == c.srv.bare {
		return "nobody: the connection has not acquired the session"
	}
	who := "this connection (" + c.address() + ")"
	if sub.rule.Owner == rule.OwnerProxy {
		who = "proxy " + c.srv.name + ", like all its clients"
	}
	return who + "; " + stateText(c.ownerOf(sub.rule).Find(sub.record.Area, sub.rule, session))
}

// stateText says how far a sequence is.
func stateText(s *lock.Sequence) string {
	if s == nil {
		return "no sequence is open"
	}
	switch s.State() {
	case lock.Held:
		return fmt.Sprintf("it holds the session under grant %d", s.Grant())
	case lock.Ended:
		return fmt.Sprintf("it has read under grant %d, which it does not hold any more", s.Grant())
	case lock.Broken:
		return "its sequence was broken: its next command hears of it"
	default:
		return "no sequence is open"
	}
}

// breakHold is FENCE.BREAK, for operators.
func (c *client) breakHold(key []byte) error {
	sub, err := c.subjectOf(key)
	if err != nil {
		return err
	}
	switch admin, asked := c.isAccountsAdmin(); {
	case asked && !admin:
		return wordError(noPermission)
	case !asked:
		if refusal, err := c.isAdmin(); refusal != nil || err != nil {
			return c.inItsWords(refusal, err)
		}
	}
	ctx, cancel := asking()
	defer cancel()
	holder, broken, err := c.srv.locks.Break(ctx, sub.record, c.claim(sub, sub.rule.Lease))
	if sub.grants != sub.record && err == nil { // one that was acquired by itself
		other, too, failed := c.srv.locks.Break(ctx, sub.grants, c.claim(sub, sub.rule.Lease))
		if err = failed; !broken {
			holder, broken = other, too
		}
	}
	if err != nil {
		return &downError{sub.record.String(), err}
	}
	if broken {
		c.srv.log.Warn("hold broken by FENCE.BREAK", "rule", sub.rule.Name, "session", sub.record.Session, "grant", holder.Grant,
			"holder", holderText(holder, time.Now()), slog.Group("by", "client", c.address(), "name", c.state.name, "user", c.user()))
	}
	return c.local(resp.AppendInt(nil, number(broken)))
}
