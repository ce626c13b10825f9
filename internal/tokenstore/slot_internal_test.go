package tokenstore

import "testing"

func TestARecordIsKnownByItsKeys(t *testing.T) {
	for _, at := range []Area{{}, {DB: 3}, {Slot: SlotOf([]byte("k"))}} {
		for _, session := range []string{"s", "a:b", "a}b", "a}", "{a}", "a}:b", "}", ":", ":t", "a:t"} {
			want := NewRecord(at, "chat", session)
			got := recordAt(at.DB, want.token, "t")
			if got == nil || !got.Is(want) || got.Session != session || got.Area != at || got.Rule != "chat" {
				t.Errorf("%+v %q: %q is taken for %+v", at, session, want.token, got)
			}
			if r := recordAt(at.DB, want.hold, "t"); r != nil {
				t.Errorf("%q is taken for the token of %v", want.hold, r)
			}
		}
	}
	for _, key := range []string{saltKey, WakeChannel("p"), "chat:t", Prefix + "{chat}:t", NewRecord(Area{}, "chat", "s").WakeList("p.1")} {
		if r := recordAt(0, key, "t"); r != nil {
			t.Errorf("%q is taken for %v", key, r)
		}
	}
}
