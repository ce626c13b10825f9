package proxy

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

func TestErrorLinesSayWhatHappenedAndWhatToDo(t *testing.T) {
	now := time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	record, second := tokenstore.NewRecord(tokenstore.Area{}, "chat", "s42"), tokenstore.NewRecord(tokenstore.Area{DB: 3}, "chat", "a\r\nb")
	holder := tokenstore.Holder{
		Identity: tokenstore.Identity{Proxy: "pod-1", Client: "10.0.0.7:5123", Name: "worker-2"},
		Owner:    "x:1", Grant: 1700, Since: now.Add(-2540 * time.Millisecond),
	}
	fenced := func(reason lock.Reason) *lock.FencedError {
		return &lock.FencedError{Record: record, Reason: reason, Grant: 1600}
	}
	sessions := record.String()
	for _, tc := range []struct {
		err  error
		want string
	}{
		{
			&lock.FencedError{Record: record, Reason: lock.ReasonSuperseded, Grant: 1600, Newest: 1700, Holder: holder},
			`FENCED rule "chat" session "s42": nothing was written: the session was granted to another owner since it was read ` +
				`(grant 1600, newest 1700); held now by client 10.0.0.7:5123 (worker-2) of proxy pod-1 since 2030-05-06T07:08:06Z ` +
				`(2.5s ago, grant 1700). Read again, then write.`,
		},
		{
			&lock.FencedError{Record: second, Reason: lock.ReasonSuperseded, Grant: 1600, Newest: 1700},
			`FENCED rule "chat" session "a\r\nb" (db 3): nothing was written: the session was granted to another owner since it was read ` +
				`(grant 1600, newest 1700). Read again, then write.`,
		},
		{
			fenced(lock.ReasonMissing),
			`FENCED rule "chat" session "s42": nothing was written: the session's fence record is gone (deleted, evicted, flushed or expired) ` +
				`(grant 1600). Read again, then write.`,
		},
		{
			fenced(lock.ReasonHeld),
			`FENCED rule "chat" session "s42": nothing was written: another owner holds the session, and other tasks' commands would wait with ` +
				`this one until he has written (grant 1600). Read again, then write.`,
		},
		{
			fenced(lock.ReasonStored),
			`FENCED rule "chat" session "s42": nothing was written: a write with this token was stored already (grant 1600). Read again, then write.`,
		},
		{
			fenced(lock.ReasonMaxHold),
			`FENCED rule "chat" session "s42": nothing was written: the hold reached max_hold and was ended (grant 1600). Read again, then write.`,
		},
		{
			fenced(lock.ReasonUsedUp),
			`FENCED rule "chat" session "s42": nothing was written: an earlier write of the same owner used up the read (grant 1600). Read again, then write.`,
		},
		{
			fenced(lock.ReasonUnsure),
			`FENCED rule "chat" session "s42": nothing was written: another task of the same owner read the key before its last write, ` +
				`and this write can't be told from that task's (grant 1600). Read again, then write.`,
		},
		{
			&lock.LockedError{Record: record, Holder: tokenstore.Holder{}, Word: "LOCKED", Waiting: 1000},
			`LOCKED rule "chat" session "s42" is held by another owner, and 1000 wait for it, as many as limits.waiters allows. ` +
				`Nothing was written; try again later.`,
		},
		{
			&lock.LockedError{Record: record, Holder: holder, Waited: 1500*time.Millisecond + 300*time.Microsecond, Word: "LOCKED"},
			`LOCKED rule "chat" session "s42" is held by client 10.0.0.7:5123 (worker-2) of proxy pod-1 since 2030-05-06T07:08:06Z ` +
				`(2.5s ago, grant 1700); waited 1.5s. Nothing was written; try again later.`,
		},
		{
			&lock.LockedError{Record: record, Word: "TRYAGAIN"},
			`TRYAGAIN rule "chat" session "s42" is held by another owner. Nothing was written; try again later.`,
		},
		{
			&deniedError{reason: "the key \"fence-proxy:x\" is reserved for fence records"},
			`FENCEDENIED the key "fence-proxy:x" is reserved for fence records`,
		},
		{
			&unknownError{sessions: sessions, err: upstream.ErrLost},
			`FENCEUNKNOWN rule "chat" session "s42": the write may or may not have been applied: the connection to the upstream Redis broke. ` +
				`Read again before you write.`,
		},
		{
			&downError{sessions, upstream.ErrLost},
			`FENCEDOWN rule "chat" session "s42": nothing was written: the connection to the upstream Redis broke. Try again later.`,
		},
		{
			&downError{sessions, &tokenstore.StoreError{Reply: "NOPERM this user has no permissions"}},
			`FENCEDOWN rule "chat" session "s42": nothing was written: the store refused the fence: NOPERM this user has no permissions. Try again later.`,
		},
		{
			&downError{sessions, &tokenstore.ProviderError{Record: "etcd", Configured: "redis"}},
			`FENCEDOWN rule "chat" session "s42": nothing was written: the session's fence record was made by lock provider "etcd", ` +
				`this proxy uses "redis": point every proxy at one provider, then run fence-proxy migrate, or wait until the record expires. Try again later.`,
		},
		{protocolError(t), `ERR Protocol error: expected '$', got 'x'`},
		{upstream.ErrLost, "ERR fence-proxy: the connection to the upstream Redis broke"},
		{errors.New("anything"), "ERR fence-proxy: anything"},
	} {
		if got := errorText(tc.err, now); got != tc.want {
			t.Errorf("%T:\n got %s\nwant %s", tc.err, got, tc.want)
		}
		if got := errorText(fmt.Errorf("handle it: %w", tc.err), now); got != tc.want && got[:4] != "ERR " {
			t.Errorf("%T, wrapped:\n got %s\nwant %s", tc.err, got, tc.want)
		}
	}
}

func TestAnErrorLineIsOneLine(t *testing.T) {
	line := string(errorLine(&deniedError{reason: "the key \r\n+OK\r\n is odd"}, time.Now()))
	if want := "-FENCEDENIED the key   +OK   is odd\r\n"; line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

func TestAHolderWhoseClockIsAheadHasHeldForNoTime(t *testing.T) {
	now := time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	h := tokenstore.Holder{Identity: tokenstore.Identity{Proxy: "pod-1"}, Owner: "x", Grant: 5, Since: now.Add(time.Hour)}
	if got, want := holderText(h, now), "proxy pod-1 since 2030-05-06T08:08:09Z (0s ago, grant 5)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// protocolError is what a client gets for a request that is none.
func protocolError(t *testing.T) error {
	t.Helper()
	_, _, err := resp.NewRequestParser(resp.Limits{}).Next([]byte("*1\r\nx\r\n"))
	if err == nil {
		t.Fatal("it is a request")
	}
	return err
}
