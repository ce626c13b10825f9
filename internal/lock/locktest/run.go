package locktest

import "testing"

// Run runs the suite, as a parallel test: first the sub-tests that stop or freeze servers, or step their clocks, one by
// one, then the others beside each other.
func Run(t *testing.T, h Harness) {
	t.Helper()
	t.Parallel()
	for _, hard := range []bool{true, false} {
		for _, c := range checks {
			if c.hard != hard || c.needs != nil && !c.needs(h) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if !hard {
					t.Parallel()
				}
				c.run(t, h)
			})
		}
	}
}

// check is one sub-test.
type check struct {
	name  string
	play  func(s *stage)
	needs func(h Harness) bool // nil if it is for all providers
	hard  bool                 // on the servers, so none other may use them meanwhile
}

func (c check) run(tb testing.TB, h Harness) {
	tb.Helper()
	c.play(newStage(tb, h))
}

var checks = []check{
	{name: "OneOwnerHoldsAtATime", play: oneOwnerHoldsAtATime},
	{name: "WaitersAreServedInTheirOrder", play: waitersAreServedInTheirOrder, needs: hasOrder},
	{name: "EveryWaiterIsServed", play: everyWaiterIsServed},
	{name: "ACancelledWaiterLeavesTheLine", play: aCancelledWaiterLeavesTheLine},
	{name: "NoGhostStaysWhenManyGiveUp", play: noGhostStaysWhenManyGiveUp},

	{name: "GrantsGrow", play: grantsGrow, hard: true},
	{name: "GrantsGoAboveTheStores", play: grantsGoAboveTheStores, needs: func(h Harness) bool { return h.GoesAbove }},
	{name: "NamesDoNotCollide", play: namesDoNotCollide},

	{name: "ARenewedHoldOutlivesItsLease", play: aRenewedHoldOutlivesItsLease},
	{name: "AHoldThatNobodyRenewsEnds", play: aHoldThatNobodyRenewsEnds, needs: func(h Harness) bool { return h.OwnLeases }},
	{name: "AHoldEndedAtTheServersIsLost", play: aHoldEndedAtTheServersIsLost},
	{name: "AReleasedHoldIsOver", play: aReleasedHoldIsOver},
	{name: "AReleaseThatFailsIsMadeUpFor", play: aReleaseThatFailsIsMadeUpFor},
	{name: "ALateReleaseIsHarmless", play: aLateReleaseIsHarmless},

	{name: "AProxyThatIsCutOffLosesItsHold", play: aProxyThatIsCutOffLosesItsHold},
	{name: "AProxyInABlackHoleLosesItsHold", play: aProxyInABlackHoleLosesItsHold},
	{name: "BreakingConnectionsLoseNothing", play: breakingConnectionsLoseNothing},
	{name: "ServersMayRestart", play: serversMayRestart, hard: true},
	{name: "ServersMayBePausedPastTheLease", play: serversMayBePausedPastTheLease, hard: true},
	{name: "ServersMayComeLater", play: serversMayComeLater, needs: func(h Harness) bool { return !h.NotLater }, hard: true},
	{name: "OneServerMayDie", play: oneServerMayDie, needs: func(h Harness) bool { return h.KillOne != nil }, hard: true},
	{name: "AClockMayStep", play: aClockMayStep, needs: func(h Harness) bool { return h.StepClock != nil }, hard: true},

	{name: "CloseGivesEverythingBack", play: closeGivesEverythingBack},
	{name: "CloseDoesNotOutlastItsContext", play: closeDoesNotOutlastItsContext},
	{name: "CloseLeavesNothingBehind", play: closeLeavesNothingBehind},
}

func hasOrder(h Harness) bool { return h.Waiting != nil }
