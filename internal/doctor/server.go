package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// oldest is the oldest Redis that the fence works on and is tested with: major, minor.
var oldest = [2]int{6, 0}

// supported is the oldest whose makers still mend it, to the best of this program's knowledge.
var supported = [2]int{7, 0}

func unwelcome(err error) bool {
	return strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "WRONGPASS")
}

// server looks at which one it is.
func server(ctx context.Context, e *exam) {
	version, err := e.info(ctx, "redis_version")
	switch {
	case err != nil:
		e.unsure(err, "compare INFO server with docs/servers.md")
		return
	case version == "":
		e.warn("test what your agents do before you rely on it", "INFO names no version: this is no Redis that fence-proxy is tested with")
		return
	}
	name := "Redis " + version
	if valkey, _ := e.info(ctx, "valkey_version"); valkey != "" {
		name = "Valkey " + valkey
	}
	if mode, _ := e.info(ctx, "redis_mode"); mode != "" {
		name += ", " + mode
	}
	v, err := versionOf(version)
	switch {
	case err != nil:
		e.warn("test what your agents do before you rely on it", "%s: %v", name, err)
	case older(v, oldest):
		e.fail(fmt.Sprintf("use Redis %d.%d or later", oldest[0], oldest[1]), "%s is older than any that the fence is tested with", name)
	case older(v, supported):
		e.warn("plan for a newer one: docs/servers.md has what differs", "%s works, but gets no fixes any more, and does not tell which keys a command has: a built-in table does", name)
	default:
		e.ok("%s", name)
	}
}

func versionOf(text string) (v [2]int, err error) {
	part := strings.SplitN(text, ".", 3)
	for i := range v {
		if i < len(part) {
			if v[i], err = strconv.Atoi(part[i]); err != nil {
				return v, fmt.Errorf("version %q: %w", text, err)
			}
		}
	}
	return v, nil
}

func older(v, than [2]int) bool { return v[0] < than[0] || v[0] == than[0] && v[1] < than[1] }
