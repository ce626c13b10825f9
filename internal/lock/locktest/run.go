package locktest

import "testing"

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range checks {
		if c.needs != nil && !c.needs(h) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, h) })
	}
}

// check is one sub-test.
type check struct {
	name  string
	play  func(s *stage)
	needs func(h Harness) bool // nil if it is for all providers
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

	{name: "GrantsGrow", play: grantsGrow},
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
	{name: "ServersMayRestart", play: serversMayRestart},
	{name: "ServersMayBePausedPastTheLease", play: serversMayBePausedPastTheLease},
	{name: "ServersMayComeLater", play: serversMayComeLater},
	{name: "OneServerMayDie", play: oneServerMayDie, needs: func(h Harness) bool { return h.KillOne != nil }},
	{name: "AClockMayStep", play: aClockMayStep, needs: func(h Harness) bool { return h.StepClock != nil }},

	{name: "CloseGivesEverythingBack", play: closeGivesEverythingBack},
	{name: "CloseDoesNotOutlastItsContext", play: closeDoesNotOutlastItsContext},
	{name: "CloseLeavesNothingBehind", play: closeLeavesNothingBehind},
}

func hasOrder(h Harness) bool { return h.Waiting != nil }
