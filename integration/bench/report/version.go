package report

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Version is a program or library that takes part.
type Version struct{ Name, Version string }

// programs print their versions themselves.
var programs = []struct {
	name string
	call []string
}{
	{"redis-server", []string{"redis-server", "--version"}},
	{"redis-benchmark", []string{"redis-benchmark", "--version"}},
	{"haproxy", []string{"haproxy", "-v"}},
	{"twemproxy (nutcracker)", []string{"nutcracker", "--version"}},
	{"predixy", []string{"predixy", "--version"}},
	{"etcd", []string{"etcd", "--version"}},
	{"node", []string{"node", "--version"}},
}

var numbers = regexp.MustCompile(`\d+\.\d+[\w.+~-]*`)

// Programs are the versions of Go and of the programs that the PATH has; of a proxy that is not there it says so.
func Programs() []Version {
	found := []Version{{"Go", strings.TrimPrefix(runtime.Version(), "go")}}
	for _, p := range programs {
		found = append(found, Version{p.name, printed(p.call)})
	}
	return found
}

// printed is the first version number that a program prints.
func printed(call []string) string {
	program, err := exec.LookPath(call[0])
	if err != nil {
		return "not there"
	}
	text, _ := exec.Command(program, call[1:]...).CombinedOutput() // nutcracker prints its version and fails
	if number := numbers.Find(text); number != nil {
		return string(number)
	}
	return unknown
}

// Python is the version of a module, of the first interpreter that has it; "not there" without one.
func Python(module string) Version {
	v := Version{module + " (Python)", "not there"}
	for _, interpreter := range []string{"python3", "/usr/bin/python3"} { // the order in which the harness looks for one
		if text, err := exec.Command(interpreter, "-c", "import "+module+"; print("+module+".__version__)").Output(); err == nil {
			v.Version = strings.TrimSpace(string(text))
			break
		}
	}
	return v
}

// Modules are the versions with which go.mod has these modules.
func Modules(goMod string, paths ...string) ([]Version, error) {
	text, err := os.ReadFile(goMod)
	if err != nil {
		return nil, err
	}
	var found []Version
	for _, path := range paths {
		v := Version{path, "not there"}
		for l := range strings.Lines(string(text)) {
			if words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(l), "require ")); len(words) > 1 && words[0] == path {
				v.Version = words[1]
			}
		}
		found = append(found, v)
	}
	return found, nil
}

// NodePackages are what a package.json depends on.
func NodePackages(file string) ([]Version, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}
	return sortedVersions(manifest.Dependencies, " (npm)"), nil
}

// Product is the version of fence-proxy: the commit it was built of.
func Product() Version {
	v := Version{"fence-proxy", unknown}
	if text, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		v.Version = strings.TrimSpace(string(text))
	} else if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
	}
	return v
}

func sortedVersions(versions map[string]string, kind string) []Version {
	var found []Version
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		found = append(found, Version{name + kind, versions[name]})
	}
	return found
}
