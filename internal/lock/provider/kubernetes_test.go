package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Its behaviour is proved on a real API server (make test-kube); here is what needs none.

func TestKubernetesLeaseNamesAreValidAndNoTwoSessionsShareOne(t *testing.T) {
	sessions := []string{
		"", " ", "\x00", "\x00\x00", "a", "A", "a ", " a", "a-", "-a", "a.b", "a/b", "a:b", "a\xff", "a\xfe", "ß", "日本語", "🔒",
		strings.Repeat("x", 1000), strings.Repeat("x", 1001), strings.Repeat("-", 1000), "agent:ctx:{42}",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		session := make([]byte, random.IntN(60))
		for i := range session {
			session[i] = byte(random.IntN(256))
		}
		sessions = append(sessions, string(session))
	}
	slices.Sort(sessions)
	seen := map[string]string{}
	for _, session := range slices.Compact(sessions) {
		for _, prefix := range []string{"p", strings.Repeat("p", 40)} {
			name := kubeLeaseName(prefix, session)
			if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
				t.Errorf("the name of %q is %q: %v", session, name, faults)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%q and %q share %q", session, other, name)
			}
			seen[name] = session
		}
	}
	// Proxies of different versions have to agree.
	if got, want := kubeLeaseName("fence-proxy", "agent:ctx:{42}"), "fence-proxy.agent-ctx-42.0dvdl7v0813tf1njenpaco9n77tcsgv3tum4jgjhiclvgvu4mvs0"; got != want {
		t.Errorf("the name of a session was %q and is %q", want, got)
	}
}

func TestKubernetesGrantsAreNumbersBelow2To53(t *testing.T) {
	for version, want := range map[string]uint64{"1": 1, "48211": 48211, "9007199254740991": 1<<53 - 1} {
		if got, err := kubeGrant(version); got != want || err != nil {
			t.Errorf("version %q: %d, %v", version, got, err)
		}
	}
	for _, version := range []string{"", "0", "-1", "+1", "1a", "0x10", "1.0", " 1", "9007199254740992", "99999999999999999999"} {
		if got, err := kubeGrant(version); !errors.Is(err, errKubeVersion) {
			t.Errorf("version %q: %d, %v", version, got, err)
		}
	}
}

func TestKubernetesLeasesAreNeverShorterThanAskedFor(t *testing.T) {
	for lease, want := range map[time.Duration]int32{
		time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, 30 * time.Second: 30, 1 << 62: 1<<31 - 1,
	} {
		if got := *kubeSeconds(lease); got != want {
			t.Errorf("%v is %d seconds", lease, got)
		}
	}
}

func TestKubernetesNotesAreValidTextAndNotTooLong(t *testing.T) {
	for text, want := range map[string]string{"": "", "日本語\n": "日本語\n", "\xff": `"\xff"`, "a\xc3": `"a\xc3"`} {
		if got := kubeText(text); got != want {
			t.Errorf("%q is noted as %q", text, got)
		}
	}
	for _, text := range []string{strings.Repeat("日", 1<<20), strings.Repeat("\xff", 1<<20)} {
		if got := kubeText(text); len(got) > 17<<10 || !utf8.ValidString(got) {
			t.Errorf("a long text is noted with %d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	}
}

func TestKubernetesSettings(t *testing.T) {
	kind, ok := Find("kubernetes")
	if !ok {
		t.Fatal("the provider is not known")
	}
	if setting, remedy := kind.Settings().Validate(); setting != "" {
		t.Errorf("the default of %s can't be: %s", setting, remedy)
	}
	for _, c := range []struct {
		want string
		edit func(*KubernetesSettings)
	}{
		{"", func(s *KubernetesSettings) { s.Prefix = "team-1" }},
		{"", func(s *KubernetesSettings) { s.QPS, s.Burst = 50, 100 }},
		{"", func(s *KubernetesSettings) { s.Kubeconfig, s.Context = "file", "staging" }},
		{"prefix", func(s *KubernetesSettings) { s.Prefix = "" }},
		{"prefix", func(s *KubernetesSettings) { s.Prefix = "Team" }},
		{"prefix", func(s *KubernetesSettings) { s.Prefix = "team-" }},
		{"prefix", func(s *KubernetesSettings) { s.Prefix = strings.Repeat("x", 41) }},
		{"context", func(s *KubernetesSettings) { s.Context = "staging" }},
		{"request_timeout", func(s *KubernetesSettings) { s.RequestTimeout = 0 }},
		{"keep", func(s *KubernetesSettings) { s.Keep = time.Millisecond }},
		{"qps", func(s *KubernetesSettings) { s.QPS = -1 }},
		{"burst", func(s *KubernetesSettings) { s.QPS = 5 }},
		{"burst", func(s *KubernetesSettings) { s.Burst = -1 }},
	} {
		s := kind.Settings().(*KubernetesSettings)
		c.edit(s)
		if setting, remedy := s.Validate(); setting != c.want || setting != "" && remedy == "" {
			t.Errorf("%+v: %q (%s), want %q", s, setting, remedy, c.want)
		}
	}
}

func TestKubernetesOnlyWhatTheServerHasRefusedHasNotHappened(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	refused := []error{
		apierrors.NewConflict(leases, "x", nil), apierrors.NewAlreadyExists(leases, "x"), apierrors.NewNotFound(leases, "x"),
		apierrors.NewForbidden(leases, "x", nil), apierrors.NewUnauthorized("x"), apierrors.NewBadRequest("x"), apierrors.NewTooManyRequestsError("x"),
	}
	unknown := []error{
		context.DeadlineExceeded, errors.New("connection reset"), apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
		apierrors.NewServerTimeout(leases, "update", 1), apierrors.NewTimeoutError("x", 1), apierrors.NewServiceUnavailable("x"),
		apierrors.NewGenericServerResponse(http.StatusBadGateway, "put", leases, "x", "", 0, true),
	}
	for _, err := range refused {
		if kubeUnknown(err) || kubeUnknown(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("%v may have happened", err)
		}
	}
	for _, err := range unknown {
		if !kubeUnknown(err) || !kubeUnknown(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("%v has not happened", err)
		}
	}
}

func TestKubernetesRequestsAreNotHeldUpUnlessThatIsAskedFor(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{current-context: c, contexts: [{name: c, context: {cluster: c, namespace: agents}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, qps := range []int{0, 7} {
		s := &KubernetesSettings{Kubeconfig: kubeconfig, QPS: qps, Burst: 9}
		leases, hangUp, err := newLeaseClient(s)
		if err != nil {
			t.Fatal(err)
		}
		hangUp() // nothing was connected
		if namespace := leases.GetNamespace(); namespace != "agents" {
			t.Errorf("the namespace is %q", namespace)
		}
		switch limiter := leases.GetClient().GetRateLimiter(); {
		case qps == 0 && limiter != nil:
			t.Errorf("requests are limited to %v per second", limiter.QPS())
		case qps > 0 && (limiter == nil || limiter.QPS() != float32(qps)):
			t.Errorf("requests are not limited to %d per second", qps)
		}
		s.Namespace = "other"
		if leases, _, err = newLeaseClient(s); err != nil || leases.GetNamespace() != "other" {
			t.Errorf("the namespace that was set is not used: %v", err)
		}
	}
}

// An identity says from when on its lease counts, so it must not get into a Lease by a later update than the first one
// that had it, on a version that may have been there before.
func TestKubernetesIdentitiesAreForOneVersion(t *testing.T) {
	k := &kubeLocker{instance: "me-x", alive: map[string]bool{}}
	s := &kubeSession{sight: kubeSight{version: 1}}
	w := &kubeWaiter{Request: Request{Lease: time.Hour}, session: s}
	now := time.Now()
	k.name(w, now)
	first := w.identity
	if k.name(w, now.Add(time.Minute)); w.identity != first || !w.asked.Equal(now) {
		t.Error("a question that is repeated counts from the repetition, or has another identity")
	}
	s.sight.version = 2
	if k.name(w, now.Add(2*time.Minute)); w.identity == first || !w.asked.Equal(now.Add(2*time.Minute)) || k.alive[first] {
		t.Error("a question for another version has the identity of the one before")
	}
	second := w.identity
	if k.name(w, now.Add(time.Hour)); w.identity == second || k.alive[second] {
		t.Error("a question whose lease is nearly over is asked again as it was")
	}
	k.KubernetesSettings = &KubernetesSettings{}
	under := k.taken(w, nil)
	if w.identity = ""; *under.Spec.HolderIdentity == "" {
		t.Error("what is being sent changes when its answer has been seen")
	}
}

// seenLease is a Lease as it was seen that long ago.
func seenLease(holder string, ago time.Duration, line string) kubeSight {
	renewed := metav1.NewMicroTime(time.Now().Add(5 * time.Hour)) // somebody's clock
	lease := &coordination.Lease{}
	lease.UID, lease.ResourceVersion = "1-2-3", "7"
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &renewed
	lease.Spec.LeaseDurationSeconds = kubeSeconds(time.Hour)
	lease.Annotations = map[string]string{kubeLineNote: line, "other": "note"}
	return kubeSight{lease: lease, version: 7, since: time.Now().Add(-ago)}
}

func TestKubernetesWhatAWaiterDoesNext(t *testing.T) {
	const moment, turn = time.Minute, 10 * time.Minute
	for _, c := range []struct {
		name  string
		sight kubeSight
		want  string // "take", "enter", or "wait"
		line  string // what it leaves
		until time.Duration
	}{
		{name: "there is no Lease", want: "take"},
		{name: "nobody holds it", sight: seenLease("", 0, ""), want: "take"},
		{name: "another holds it", sight: seenLease("other-1", moment, ""), want: "enter", line: "me"},
		{name: "another holds it, and others wait", sight: seenLease("other-1", moment, "a b"), want: "enter", line: "a b me"},
		{name: "it is in line", sight: seenLease("other-1", moment, "me b"), want: "wait", until: time.Hour - moment},
		{name: "it is in line behind others", sight: seenLease("other-1", moment, "a b me"), want: "wait", until: time.Hour - moment + 2*turn},
		{name: "the holder's lease is over", sight: seenLease("other-1", time.Hour+moment, ""), want: "take"},
		{name: "it is over, and another is first", sight: seenLease("other-1", time.Hour+moment, "a me b"), want: "wait", until: turn - moment},
		{name: "it is over, and who was first did not come", sight: seenLease("other-1", time.Hour+turn+moment, "a me b"), want: "take", line: "b"},
		{name: "nobody holds it, and it is first", sight: seenLease("", 0, "me b"), want: "take", line: "b"},
		{name: "nobody holds it, and another is first", sight: seenLease("", moment, "a"), want: "enter", line: "a me"},
		{name: "nobody holds it, and nobody came", sight: seenLease("", 2*turn+moment, "a b"), want: "take"},
		{name: "another one here holds it", sight: seenLease("me-x-1", moment, ""), want: "wait", until: time.Hour - moment},
		{name: "one here has given it up", sight: seenLease("me-x-2", moment, ""), want: "take"},
		{name: "one here has given it up, and another is first", sight: seenLease("me-x-2", moment, "a me"), want: "wait", until: turn - moment},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &kubeLocker{
				KubernetesSettings: &KubernetesSettings{Prefix: "p"}, me: "me", instance: "me-x", turn: turn,
				alive: map[string]bool{"me-x-1": true}, made: 9,
			}
			s := &kubeSession{name: "p.s", sight: c.sight}
			w := &kubeWaiter{Request: Request{Session: "s", Lease: time.Hour}, session: s}
			h, step := k.next(w)
			did := "wait"
			if step.write != nil {
				did = "enter"
				if step.write.Spec.HolderIdentity != nil && *step.write.Spec.HolderIdentity == w.identity && w.identity != "" {
					did = "take"
				}
				if c.sight.lease != nil && (step.write.UID != "1-2-3" || step.write.ResourceVersion != "7" || step.write.Annotations["other"] != "note") {
					t.Errorf("it writes %+v", step.write.ObjectMeta)
				}
				if line := step.write.Annotations[kubeLineNote]; line != c.line {
					t.Errorf("the line is %q then, want %q", line, c.line)
				}
			}
			if h != nil || did != c.want {
				t.Fatalf("it does %q, want %q", did, c.want)
			}
			if left := time.Until(step.until); did == "wait" && (left < c.until-moment/2 || left > c.until) {
				t.Errorf("it waits %v, want %v", left, c.until)
			}
		})
	}
}

func TestKubernetesOnlyARenewalExtendsALease(t *testing.T) {
	before := seenLease("other-1", time.Hour, "")
	entered := before.of(before.withLine([]string{"me"}), 8)
	if !entered.since.Equal(before.since) {
		t.Error("an entry in the line has extended the Lease")
	}
	renewed := before.withLine(nil)
	later := metav1.NewMicroTime(before.lease.Spec.RenewTime.Add(-time.Hour)) // by a clock that was set back
	renewed.Spec.RenewTime = &later
	if time.Since(before.of(renewed, 8).since) > time.Minute {
		t.Error("a renewal has not extended the Lease")
	}
	taken := before.withLine(nil)
	holder := "other-2"
	taken.Spec.HolderIdentity = &holder
	if time.Since(before.of(taken, 8).since) > time.Minute {
		t.Error("a new holder has the rest of the one before")
	}
}
