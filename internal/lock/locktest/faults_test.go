package locktest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// faults are what a provider may do wrong.
type faults struct {
	sameGrant, grantsShrink, grantsTooLarge    bool // now and then a grant is the last one again; each is smaller; they don't fit
	forgetsGrants, forgetsSession              bool // a restart, or the last release, starts from 1 again
	ignoresAbove                               bool
	forgetsLatest, needsAll                    bool // a failover loses the last grants; one server down is an outage
	reentrant, grantsToAll                     bool // a second owner of the same proxy, or anybody, is granted at once
	lifo                                       bool // the last in line comes first
	staysInLine, forgetsCancelledGrant         bool // a waiter that gives up keeps its place, or what it was granted meanwhile
	forgetsLostAnswers                         bool // asks anew when an answer was lost
	ignoresContext, hidesContext               bool
	releasesByName, keepsReleased              bool // a release ends whoever holds, or nobody's hold
	forgetsRelease                             bool // a hold that was released may be renewed
	neverEnds                                  bool // the servers know no leases
	seesNoLoss, seesNoEnd, renewsAlways        bool
	renewsNothing, untilTooLate                bool
	trustsClock                                bool
	checksNothing, opensWhenUp, neverComesBack bool
	closeKeeps, waitsAfterClose                bool
	closeIgnoresContext                        bool
	leaksGoroutine, leaksConnection            bool
	names                                      names
	order                                      order
}

type names int

const (
	_ names = iota
	cutNames
	foldedNames
	cleanNames
	cNames
	validNames
)

type order int

const (
	fifo order = iota
	unordered
)

func TestAGoodProviderPasses(t *testing.T) {
	for name, f := range map[string]faults{"first come, first served": {}, "no order": {order: unordered}} {
		for _, c := range checks {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				for _, complaint := range complaints(t, c, f) {
					t.Error(complaint)
				}
			})
		}
	}
}

func TestEachFaultIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		faults faults
		by     string
	}{
		"a grant is given twice":               {faults{sameGrant: true}, "OneOwnerHoldsAtATime"},
		"grants get smaller":                   {faults{grantsShrink: true}, "GrantsGrow"},
		"grants are too large":                 {faults{grantsTooLarge: true}, "GrantsGrow"},
		"a restart forgets the grants":         {faults{forgetsGrants: true}, "GrantsGrow"},
		"a free session forgets its grants":    {faults{forgetsSession: true}, "GrantsGrow"},
		"a failover forgets the last grants":   {faults{forgetsLatest: true}, "OneServerMayDie"},
		"one dead server is an outage":         {faults{needsAll: true}, "OneServerMayDie"},
		"the store's newest grant is ignored":  {faults{ignoresAbove: true}, "GrantsGoAboveTheStores"},
		"owners of a proxy share a hold":       {faults{reentrant: true}, "OneOwnerHoldsAtATime"},
		"everybody holds":                      {faults{grantsToAll: true}, "OneOwnerHoldsAtATime"},
		"everybody holds, seen in the line":    {faults{grantsToAll: true}, "WaitersAreServedInTheirOrder"},
		"the last in line comes first":         {faults{lifo: true}, "WaitersAreServedInTheirOrder"},
		"a waiter that gave up stays in line":  {faults{staysInLine: true}, "ACancelledWaiterLeavesTheLine"},
		"a ghost stands in the line":           {faults{staysInLine: true}, "NoGhostStaysWhenManyGiveUp"},
		"a ghost, where no line can be seen":   {faults{staysInLine: true, order: unordered}, "ACancelledWaiterLeavesTheLine"},
		"a grant that came too late is kept":   {faults{forgetsCancelledGrant: true}, "NoGhostStaysWhenManyGiveUp"},
		"a wait can't be cancelled":            {faults{ignoresContext: true}, "ACancelledWaiterLeavesTheLine"},
		"a cancelled wait has another error":   {faults{hidesContext: true}, "ACancelledWaiterLeavesTheLine"},
		"a release ends the successor's hold":  {faults{releasesByName: true}, "AReleasedHoldIsOver"},
		"a late release does":                  {faults{releasesByName: true}, "ALateReleaseIsHarmless"},
		"a release does nothing":               {faults{keepsReleased: true}, "EveryWaiterIsServed"},
		"a released hold can be renewed":       {faults{forgetsRelease: true, keepsReleased: true}, "AReleasedHoldIsOver"},
		"a hold outlives its proxy":            {faults{neverEnds: true}, "AProxyThatIsCutOffLosesItsHold"},
		"a hold never ends":                    {faults{neverEnds: true}, "AHoldThatNobodyRenewsEnds"},
		"a proxy that is cut off sees no loss": {faults{seesNoLoss: true}, "AProxyThatIsCutOffLosesItsHold"},
		"nor does one in a black hole":         {faults{seesNoLoss: true}, "AProxyInABlackHoleLosesItsHold"},
		"nor does one of frozen servers":       {faults{seesNoLoss: true}, "ServersMayBePausedPastTheLease"},
		"the servers' end of a hold is unseen": {faults{seesNoEnd: true}, "AHoldEndedAtTheServersIsLost"},
		"Renew always says yes":                {faults{renewsAlways: true}, "AHoldEndedAtTheServersIsLost"},
		"Renew says yes when cut off":          {faults{renewsAlways: true}, "AProxyThatIsCutOffLosesItsHold"},
		"Renew does nothing":                   {faults{renewsNothing: true}, "ARenewedHoldOutlivesItsLease"},
		"a hold is believed in for too long":   {faults{untilTooLate: true}, "AProxyThatIsCutOffLosesItsHold"},
		"and in a black hole":                  {faults{untilTooLate: true}, "AProxyInABlackHoleLosesItsHold"},
		"a clock ends a lease":                 {faults{trustsClock: true}, "AClockMayStep"},
		"Check finds servers that are down":    {faults{checksNothing: true}, "ServersMayRestart"},
		"Check finds servers that are frozen":  {faults{checksNothing: true}, "ServersMayBePausedPastTheLease"},
		"a Locker waits for its servers":       {faults{opensWhenUp: true}, "ServersMayComeLater"},
		"an outage is for ever":                {faults{neverComesBack: true}, "ServersMayRestart"},
		"a Locker that came first is dead":     {faults{neverComesBack: true}, "ServersMayComeLater"},
		"a broken connection is for ever":      {faults{neverComesBack: true}, "BreakingConnectionsLoseNothing"},
		"broken connections leave ghosts":      {faults{neverEnds: true, forgetsLostAnswers: true}, "BreakingConnectionsLoseNothing"},
		"a failed release is forgotten":        {faults{neverEnds: true}, "AReleaseThatFailsIsMadeUpFor"},
		"Close keeps holds until they end":     {faults{closeKeeps: true}, "CloseGivesEverythingBack"},
		"Close keeps holds":                    {faults{closeKeeps: true, neverEnds: true}, "CloseGivesEverythingBack"},
		"Close leaves waiters in line":         {faults{waitsAfterClose: true}, "CloseGivesEverythingBack"},
		"Close waits for ever":                 {faults{closeIgnoresContext: true}, "CloseDoesNotOutlastItsContext"},
		"a goroutine stays":                    {faults{leaksGoroutine: true}, "CloseLeavesNothingBehind"},
		"a connection stays":                   {faults{leaksConnection: true}, "CloseLeavesNothingBehind"},
		"long names are cut":                   {faults{names: cutNames}, "NamesDoNotCollide"},
		"upper case is lower case":             {faults{names: foldedNames}, "NamesDoNotCollide"},
		"names are paths":                      {faults{names: cleanNames}, "NamesDoNotCollide"},
		"names end at a NUL":                   {faults{names: cNames}, "NamesDoNotCollide"},
		"names are text":                       {faults{names: validNames}, "NamesDoNotCollide"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := complaints(t, named(t, c.by), c.faults); len(found) == 0 {
				t.Errorf("%s does not find it", c.by)
			} else {
				t.Log(found[0])
			}
		})
	}
}

func named(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no sub-test %s", name)
	return check{}
}

// complaints are what a sub-test has against a provider with faults, by a clock that runs when nobody does.
func complaints(t *testing.T, c check, f faults) []string {
	t.Helper()
	var found []string
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(f)
		if h := m.harness(); c.needs == nil || c.needs(h) {
			found = record(t, func(tb testing.TB) { tb.Helper(); c.run(tb, h) })
		}
		close(m.over)
		time.Sleep(time.Minute) // what a test has given up on comes to its end
	})
	return found
}

// recorder is a TB that keeps what a test complains of, and does not fail.
type recorder struct {
	scope
	mu         sync.Mutex
	complaints []string
}

func record(t *testing.T, test func(tb testing.TB)) []string {
	t.Helper()
	r := &recorder{scope: scope{TB: t}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		test(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.complaints
}

func (r *recorder) complain(complaint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, complaint)
}

func (r *recorder) Error(args ...any)                 { r.complain(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.complain(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.complain("it failed") }
func (r *recorder) FailNow()                          { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
