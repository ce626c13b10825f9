package provider

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	coordination "k8s.io/api/coordination/v1"
)

// What a Lease carries besides its own fields.
const (
	kubePrefixLabel = "fence-proxy.github.io/prefix"  // which Leases belong together
	kubeSessionNote = "fence-proxy.github.io/session" // for people
	kubeHolderNote  = "fence-proxy.github.io/holder"  // for people
	kubeLineNote    = "fence-proxy.github.io/line"    // the proxies that wait, in order, with spaces between
)

// kubeSight is what is known of a Lease.
type kubeSight struct {
	lease   *coordination.Lease // nil: there is none; never changed
	version uint64              // its resourceVersion, or that of its deletion
	since   time.Time           // when its holder or renewTime was last seen to change, by this process's clock
}

// of is the sight of a newer version. An entry in the line is no renewal.
func (s kubeSight) of(lease *coordination.Lease, version uint64) kubeSight {
	next := kubeSight{lease: lease, version: version, since: time.Now()}
	if s.lease != nil && lease != nil && next.holder() == s.holder() && next.lease.Spec.RenewTime.Equal(s.lease.Spec.RenewTime) {
		next.since = s.since
	}
	return next
}

// holder is the holder's identity, "" if there is none.
func (s kubeSight) holder() string {
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

// duration is how long the Lease stands without being renewed.
func (s kubeSight) duration() time.Duration {
	if s.lease == nil || s.lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*s.lease.Spec.LeaseDurationSeconds) * time.Second
}

// line are the proxies that wait.
func (s kubeSight) line() []string {
	if s.lease == nil {
		return nil
	}
	return strings.Fields(s.lease.Annotations[kubeLineNote])
}

// withLine is a Lease to be stored in this one's place, with that line. Other fields that anybody has set stay.
func (s kubeSight) withLine(line []string) *coordination.Lease {
	lease := &coordination.Lease{}
	if s.lease != nil {
		lease = s.lease.DeepCopy()
	}
	labels, annotations := maps.Clone(lease.Labels), maps.Clone(lease.Annotations)
	lease.Labels, lease.Annotations = map[string]string{}, map[string]string{}
	maps.Copy(lease.Labels, labels)
	maps.Copy(lease.Annotations, annotations)
	if len(line) > 0 {
		lease.Annotations[kubeLineNote] = strings.Join(line, " ")
	} else {
		delete(lease.Annotations, kubeLineNote)
	}
	return lease
}

// freed is the Lease without its holder.
func (s kubeSight) freed(line []string) *coordination.Lease {
	lease := s.withLine(line)
	lease.Spec.HolderIdentity = nil
	delete(lease.Annotations, kubeHolderNote)
	return lease
}

// kubeLineAfter is the line when a proxy takes the Lease: those before it have had their turn, and all if it was not in line.
func kubeLineAfter(line []string, proxy string) []string {
	place := slices.Index(line, proxy)
	if place < 0 {
		return nil
	}
	return line[place+1:]
}

// kubeLeaseName is the name of a session's Lease, a DNS subdomain as Kubernetes wants it: something to read, and
// a hash of all of the session, so that no two sessions have the same one.
//
//	agent:ctx:{42}  →  fence-proxy.agent-ctx-42.6bq1…
func kubeLeaseName(prefix, session string) string {
	const most = 40
	var words strings.Builder
	for _, r := range strings.ToLower(session[:min(len(session), 4*most)]) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			words.WriteRune(r)
		} else if text := words.String(); text != "" && !strings.HasSuffix(text, "-") {
			words.WriteByte('-')
		}
		if words.Len() == most {
			break
		}
	}
	sum := sha256.Sum256([]byte(session))
	parts := []string{prefix, strings.Trim(words.String(), "-"), kubeHash.EncodeToString(sum[:])}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ".")
}

var kubeHash = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// kubeGrant is the number of a Lease's version. See KEP-5504 ("Comparable Resource Version"): decimal, and
// growing from write to write of a resource.
func kubeGrant(version string) (uint64, error) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 || n >= 1<<53 {
		return 0, fmt.Errorf("%w: %q", errKubeVersion, version)
	}
	return n, nil
}

var errKubeVersion = errors.New("the API server's resourceVersions are no numbers between 0 and 2^53, so they can't be grants; use another lock provider")

// kubeSeconds is a lease in whole seconds, as Kubernetes wants it, never less than it is.
func kubeSeconds(lease time.Duration) *int32 {
	seconds := int32(min(max(1, math.Ceil(lease.Seconds())), math.MaxInt32))
	return &seconds
}

// kubeText is a text as a note may have it: valid UTF-8, and not too long for one of some 256 KiB for all notes.
func kubeText(text string) string {
	const most = 16 << 10
	if !utf8.ValidString(text) {
		text = strconv.QuoteToASCII(text)
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
