package webhook

import "fmt"

// Reason is why a pod that asked for the sidecar was skipped, in one word.
type Reason string

// The reasons.
const (
	BadAnnotation      Reason = "bad-annotation"
	HostNetwork        Reason = "host-network"
	Windows            Reason = "windows"
	NeedsNativeSidecar Reason = "needs-native-sidecar"
	NoSuchContainer    Reason = "no-such-container"
	NoVariable         Reason = "no-variable"
	EmptyVariable      Reason = "empty-variable"
	AlreadyPointed     Reason = "already-pointed"
	DifferentUpstreams Reason = "different-upstreams"
	NameTaken          Reason = "name-taken"
	PortTaken          Reason = "port-taken"
)

// skip is a reason with its facts.
type skip struct {
	reason Reason
	detail string
}

func skipped(reason Reason, format string, args ...any) *skip {
	return &skip{reason, fmt.Sprintf(format, args...)}
}

// String is for people: the reason, a colon, and the facts.
func (s *skip) String() string { return string(s.reason) + ": " + s.detail }
