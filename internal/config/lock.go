package config

import (
	"fmt"
	"iter"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// The words of lock.on_provider_down.
const (
	onDownRefuse = "refuse"
	onDownPass   = "pass"
)

// ownProvider is the lock provider that is the upstream itself.
const ownProvider = "redis"

// leastProbe is how often the agent may be asked at most.
const leastProbe = 100 * time.Millisecond

// Outside reports whether the locks are elsewhere than at the upstream.
func (l *Lock) Outside() bool { return l.Provider != ownProvider }

// Pass reports whether guarded commands go through unguarded while the provider can't be asked.
func (l *Lock) Pass() bool { return l.OnProviderDown == onDownPass }

// Kind returns the kind of provider and its settings. It does not fail for a loaded configuration with locks
// elsewhere.
func (l *Lock) Kind() (provider.Kind, provider.Settings, bool) {
	kind, ok := provider.Find(l.Provider)
	return kind, l.settings[l.Provider], ok
}

func kindSettings() map[string]provider.Settings {
	all := make(map[string]provider.Settings, len(provider.Kinds))
	for _, k := range provider.Kinds {
		all[k.Name] = k.Settings()
	}
	return all
}

func kindNames() []string {
	all := []string{ownProvider}
	for _, k := range provider.Kinds {
		all = append(all, k.Name)
	}
	return all
}

// settingsTypes yields the settings of each kind, which are groups of options under lock.
func settingsTypes() iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		for _, k := range provider.Kinds {
			if !yield(k.Name, reflect.TypeOf(k.Settings()).Elem()) {
				return
			}
		}
	}
}

// check looks at where the locks are.
func (l *Lock) check() []finding {
	var found []finding
	refuse := func(key, remedy, problem string, args ...any) {
		found = append(found, finding{"lock." + key, fault{fmt.Sprintf(problem, args...), remedy}})
	}
	known := kindNames()
	if !slices.Contains(known, l.Provider) {
		remedy := "write " + choice(known)
		if best := nearest(l.Provider, known); best != "" {
			remedy = "did you mean " + best + "? Else write " + choice(known)
		}
		refuse("provider", remedy, "%q is not known", l.Provider)
	} else if settings := l.settings[l.Provider]; settings != nil {
		if setting, remedy := settings.Validate(); setting != "" {
			refuse(l.Provider+"."+setting, remedy, "can't be so")
		}
	}
	if l.OnProviderDown != onDownRefuse && l.OnProviderDown != onDownPass {
		refuse("on_provider_down", "write "+choice([]string{onDownRefuse, onDownPass}), "%q is not known", l.OnProviderDown)
	}
	a := l.AgentHealth
	if u, err := url.Parse(a.HTTP); a.HTTP != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		refuse("agent_health.http", "write a URL, as in http://127.0.0.1:8000/healthz", "is no URL of http or https")
	}
	if _, port, err := net.SplitHostPort(a.TCP); a.TCP != "" && (err != nil || !isPort(port, 1)) {
		refuse("agent_health.tcp", "write host:port, as in 127.0.0.1:8000", "%q is no address", a.TCP)
	}
	if a.Interval < leastProbe {
		refuse("agent_health.interval", "write "+rule.Text(leastProbe)+" or more", "%s is too short", rule.Text(a.Interval))
	}
	if a.Timeout <= 0 {
		refuse("agent_health.timeout", "write a time such as 1s", "%s leaves no time to answer", rule.Text(a.Timeout))
	}
	if a.Failures < 1 {
		refuse("agent_health.failures", "write 1 or more", "%d would never be reached", a.Failures)
	}
	return found
}
