package locktest

import (
	"fmt"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// grantsGrow takes one session over and over, after whatever may make a provider forget it. The ledger compares the grants.
func grantsGrow(s *stage) {
	session := s.session("often")
	one, two := s.open(), s.open()
	for range 3 {
		s.take(one, session).release()
		s.take(two, session).release()
		other := s.take(one, s.session("another"))
		s.take(one, session).release()
		other.release()
	}

	ctx, cancel := brief()
	defer cancel()
	if err := one.Close(ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	one = s.open()
	s.restoreServers()
	s.take(one, session).release()

	s.h.Servers.Stop()
	s.h.Servers.Start()
	s.takeAtLast(one, kept(session)).release()
	s.takeAtLast(two, kept(session)).release()

	lost := s.takeAtLast(one, s.lease(session))
	lost.isEndedAtTheServers()
	s.takeAtLast(two, kept(session)).release()
	s.takeAtLast(one, kept(session)).release()

	lost = s.takeAtLast(two, s.lease(session))
	two.Network.Cut()
	s.takeAtLast(one, kept(session)).release()
	two.Network.Restore()
	s.takeAtLast(two, kept(session)).release()
	lost.entry.end()
}

func grantsGoAboveTheStores(s *stage) {
	session := s.session("above")
	p := s.open()
	h := s.take(p, session)
	above := h.Grant() + 1_000_000_000
	h.release()
	for range 3 {
		h = s.takeAtLast(p, provider.Request{Session: session, Lease: ample, Above: above})
		if h.Grant() <= above {
			s.Fatalf("grant %d is not above %d", h.Grant(), above)
		}
		h.release()
	}
	h = s.take(s.open(), session)
	if h.Grant() <= above {
		s.Fatalf("grant %d comes after one above %d", h.Grant(), above)
	}
	h.release()
}

// namesDoNotCollide takes sessions with odd names, all at once.
func namesDoNotCollide(s *stage) {
	long := strings.Repeat("x", 4<<10)
	names := []string{
		"", " ", "  ", "\x00", "\x00\x00", "\n", "\r\n", "\t", "0", "00",
		"a", "A", "a ", " a", "a\x00", "a\x00b", "a\nb", "a\r\nb", "a\\b", `"a"`, "'a'",
		"/", "//", "a/", "/a", "a/b", "a//b", "a/./b", "a/../b", ".", "..", "../a",
		"a%2Fb", "a%2fb", "a%", "%61", "a+b", "a b", "a?b", "a#b", "a&b=c", "a:b", "a;b",
		"a-b", "a_b", "a.b", "a--b", "-a", "a-", "a*", "a?", "[a]", "{a}", "{a}b", "$a", "~a",
		"\xff", "\xfe", "\xff\xfe", "\xc3", "\xc3\xa9", "e\u0301", "\u00c9", "ß", "ss", "\ufffd", "\u65e5\u672c\u8a9e", "\U0001f512", "\u202ea",
		long, long + "x", long[:len(long)-1] + "y", "y" + long[1:], strings.Repeat("/", 4<<10), strings.Repeat("\x00", 4<<10),
		strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("x", 253), strings.Repeat("x", 254), strings.Repeat("x", 255), strings.Repeat("x", 256),
	}
	one, two := s.open(), s.open()
	var holds []*held
	for i, name := range names {
		h := s.begin(one, name)
		s.await(h.done, fmt.Sprintf("session %d of those with odd names, %.40q, is granted while others are held", i, name))
		holds = append(holds, h.granted())
	}
	var waiters []*attempt
	for _, name := range names {
		waiters = append(waiters, s.begin(two, name))
	}
	for i, h := range holds {
		h.release()
		waiters[i].granted()
	}
	for _, w := range waiters {
		w.hold.release()
	}
}
