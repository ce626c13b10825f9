package webhook

import (
	"strconv"
	"strings"
)

// Operation is one step of a JSON patch (RFC 6902). The webhook writes its own instead of comparing two pods: what it does
// not know of a pod, such as the fields of a newer Kubernetes, it does not touch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch collects operations, each of which applies to the pod as those before it have left it.
type patch []Operation

func (p *patch) add(value any, path ...string) {
	*p = append(*p, Operation{"add", pointer(path), value})
}

func (p *patch) replace(value any, path ...string) {
	*p = append(*p, Operation{"replace", pointer(path), value})
}

// entry adds to a map, which it makes if it is not there.
func (p *patch) entry(there bool, key, value string, path ...string) {
	if !there {
		p.add(map[string]string{key: value}, path...)
		return
	}
	p.add(value, append(path, key)...)
}

// insert adds an element to a list of n, which it makes if it is not there, at an index; n is its end.
func insert[T any](p *patch, n, index int, value T, path ...string) {
	switch {
	case n == 0:
		p.add([]T{value}, path...)
	case index == n:
		p.add(value, append(path, "-")...)
	default:
		p.add(value, append(path, strconv.Itoa(index))...)
	}
}

// pointer is a JSON pointer (RFC 6901).
func pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, step := range path {
		b.WriteString("/" + escape.Replace(step))
	}
	return b.String()
}
