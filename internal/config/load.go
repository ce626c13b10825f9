package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Load reads the file at path, if path is not empty, the environment, and those
// of flags that [AddFlags] defined; flags may be nil. The error joins one
// [*Error] for each mistake.
func Load(path string, flags *pflag.FlagSet) (*Config, error) {
	return NewSource(path, flags).Load()
}

// assemble is Load for a file whose contents are known.
func assemble(path string, c contents, flags *pflag.FlagSet) (*Config, error) {
	file, errs := readDocument(path, c)
	layers, err := stack(file, flags)
	if err != nil {
		return nil, err
	}
	cfg := defaults()

	// Each option's text comes from the topmost layer that has one.
	for _, o := range options() {
		text := layers.viper.GetString(o.key)
		if problem := setText(o.field(cfg), text); problem != nil {
			errs = append(errs, layers.blame(o.key, problem))
		}
	}
	for _, f := range cfg.check() {
		errs = append(errs, layers.blame(f.key, &f.fault))
	}
	for _, list := range []string{"rules", "users"} {
		if os.Getenv(variable(list)) != "" {
			errs = append(errs, &Error{
				Key: variable(list), Problem: "is set, but " + list + " are read from the file only", Remedy: "unset it, and write the " + list + " into the file",
			})
		}
	}

	if path == "" {
		if err := cfg.addBuiltinRules(); err != nil {
			return nil, err
		}
		cfg.notes = append(cfg.notes, `no configuration file: the built-in rule "chat" guards the keys under "agent:ctx:"`)
	} else {
		errs = append(errs, cfg.addRules(file)...)
		errs = append(errs, cfg.addUsers(file)...)
	}
	cfg.notes = append(cfg.notes, strayVariables(os.Environ())...)

	slices.SortStableFunc(errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	if len(errs) > 0 {
		all := make([]error, len(errs))
		for i, e := range errs {
			all[i] = e
		}
		return nil, errors.Join(all...)
	}
	return cfg, nil
}

// layers are the places that an option's value may come from.
type layers struct {
	viper *viper.Viper
	file  *document
	flags *pflag.FlagSet
}

// stack puts the layers on top of each other. viper knows only the options, so
// that no other variable is read, and is given each one's default, without
// which it would not look for a variable.
func stack(file *document, flags *pflag.FlagSet) (*layers, error) {
	if flags == nil {
		flags = new(pflag.FlagSet)
	}
	l := &layers{viper: viper.New(), file: file, flags: flags}
	l.viper.AllowEmptyEnv(true)
	if err := l.viper.MergeConfigMap(file.tree()); err != nil {
		return nil, fmt.Errorf("merge the configuration file: %w", err)
	}
	def := defaults()
	for _, o := range options() {
		l.viper.SetDefault(o.key, textOf(o.field(def)))
		if o.empty || os.Getenv(variable(o.key)) != "" {
			if err := l.viper.BindEnv(o.key, variable(o.key)); err != nil {
				return nil, fmt.Errorf("bind %s: %w", variable(o.key), err)
			}
		}
		if f := flags.Lookup(flagOf(o.key)); f != nil {
			if err := l.viper.BindPFlag(o.key, f); err != nil {
				return nil, fmt.Errorf("bind --%s: %w", f.Name, err)
			}
		}
	}
	return l, nil
}

// blame makes the error for an option's value, with the place it came from.
func (l *layers) blame(key string, f *fault) *Error {
	e := &Error{Key: key, Problem: f.problem, Remedy: f.remedy}
	if flag := l.flags.Lookup(flagOf(key)); flag != nil && flag.Changed {
		e.Key = "--" + flag.Name
	} else if os.Getenv(variable(key)) != "" {
		e.Key = variable(key)
	} else if line, given := l.file.lines[key]; given {
		e.File, e.Line = l.file.path, line
	}
	return e
}

// option is one leaf of Config.
type option struct {
	key   string // "upstream.url"
	kind  string // of lock provider whose setting it is; "" for all others
	index []int
	list  bool
	empty bool // its variable may be empty and mean something: its field has a tag that says what
}

func (o option) field(c *Config) reflect.Value {
	if o.kind != "" {
		return reflect.ValueOf(c.Lock.settings[o.kind]).Elem().FieldByIndex(o.index)
	}
	return reflect.ValueOf(c).Elem().FieldByIndex(o.index)
}

// options lists the leaves of Config, without the rules and the users.
func options() []option {
	var found []option
	var walk func(t reflect.Type, kind, key string, index []int)
	walk = func(t reflect.Type, kind, key string, index []int) {
		for name, f := range tagged(t) {
			path, at := join(key, name), append(slices.Clone(index), f.Index...)
			list := f.Type == reflect.TypeFor[[]string]()
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, kind, path, at)
			case f.Type.Kind() == reflect.Slice && !list: // rules and users
			default:
				_, empty := f.Tag.Lookup("empty")
				found = append(found, option{key: path, kind: kind, index: at, list: list, empty: empty})
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", "", nil)
	for kind, t := range settingsTypes() {
		walk(t, kind, "lock."+kind, nil)
	}
	return found
}
