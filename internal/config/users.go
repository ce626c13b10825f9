package config

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/account"
)

// addUsers takes the users of the file over.
func (c *Config) addUsers(d *document) (errs []*Error) {
	refuse := func(key, problem, remedy string) {
		errs = append(errs, &Error{File: d.path, Line: d.line(key), Key: key, Problem: problem, Remedy: remedy})
	}
	first := map[string]string{}
	for _, path := range d.users {
		u, whole := new(account.User), true
		for name, f := range tagged(reflect.TypeFor[account.User]()) {
			ok, bad := d.setUser(u, join(path, name), f)
			if bad != nil {
				refuse(join(path, name), bad.problem, bad.remedy)
			}
			whole = whole && ok
		}
		if !whole {
			continue // what is wrong was said
		}
		for _, f := range u.Check() {
			refuse(join(path, f.Field), f.Problem, f.Remedy)
		}
		if other, twice := first[u.Name]; twice {
			refuse(join(path, "name"), fmt.Sprintf("%q is the name of %s too", u.Name, other), "join the two: a user may have several passwords")
		}
		first[u.Name] = path
		c.Users = append(c.Users, u)
	}
	return errs
}

// setUser sets a field of a user, and reports whether its value could be made out; if not, what is wrong was said already
// unless it returns that.
func (d *document) setUser(u *account.User, key string, f reflect.StructField) (whole bool, bad *fault) {
	field := reflect.ValueOf(u).Elem().FieldByIndex(f.Index)
	if f.Type.Kind() == reflect.Slice {
		list, whole := d.list(key)
		field.Set(reflect.ValueOf(list))
		return whole, nil
	}
	if text, ok := d.values[key]; ok {
		bad = setText(field, text)
		return bad == nil, bad
	}
	_, given := d.lines[key]
	return !given, nil
}

// usersChanged says which users are other than before, for the log.
func usersChanged(was, is []*account.User) (changed []string) {
	before := map[string]*account.User{}
	for _, u := range was {
		before[u.Name] = u
	}
	for _, u := range is {
		switch old := before[u.Name]; {
		case old == nil:
			changed = append(changed, "user "+u.Name+" added")
		case !reflect.DeepEqual(old, u):
			changed = append(changed, "user "+u.Name+" changed")
		}
		delete(before, u.Name)
	}
	for _, u := range was {
		if before[u.Name] != nil {
			changed = append(changed, "user "+u.Name+" removed")
		}
	}
	return changed
}

// shown is a user without its passwords.
func shown(u *account.User) map[string]string {
	return map[string]string{
		"name": u.Name, "passwords": strconv.Itoa(len(u.Passwords)), "password_file": u.PasswordFile, "password_env": u.PasswordEnv,
		"admin": strconv.FormatBool(u.Admin),
	}
}
