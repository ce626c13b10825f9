package oracle_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
	"github.com/fence-proxy/fence-proxy/integration/chaos/oracle"
)

// story is a history in the making: each line is one op after the other, unless it says when it was called and returned.
type story struct {
	ops []*history.Op
	now int64
}

func (s *story) op(kind history.Kind, edit func(*history.Op)) *history.Op {
	o := &history.Op{Agent: fmt.Sprint("a", len(s.ops)), ID: 1, Kind: kind, Session: "s", Call: s.now + 1, Return: s.now + 2, Fate: history.Done}
	if kind == history.Erase {
		o.Session = ""
	}
	s.now += 3
	edit(o)
	s.ops = append(s.ops, o)
	return o
}

func (s *story) reads(value string) {
	s.op(history.Read, func(o *history.Op) { o.Got = value })
}

func (s *story) updates(was, value string, edits ...func(*history.Op)) *history.Op {
	return s.op(history.Update, func(o *history.Op) {
		o.Was, o.Value = was, value
		for _, edit := range edits {
			edit(o)
		}
	})
}

func (s *story) writes(value string) {
	s.op(history.Blind, func(o *history.Op) { o.Value = value })
}

func (s *story) pushes(value string, number int64, edits ...func(*history.Op)) {
	s.op(history.Push, func(o *history.Op) {
		o.Value, o.Number = value, number
		for _, edit := range edits {
			edit(o)
		}
	})
}

func (s *story) counts(number int64) {
	s.op(history.Count, func(o *history.Op) { o.Number = number })
}

func (s *story) acquires(grant uint64) *history.Op {
	return s.op(history.Acquire, func(o *history.Op) { o.Grant, o.TTL = grant, 1 })
}

func (s *story) under(grant uint64, was, value string) {
	s.op(history.GrantUpdate, func(o *history.Op) { o.Grant, o.Was, o.Value = grant, was, value })
}

func (s *story) releases(grant uint64) {
	s.op(history.Release, func(o *history.Op) { o.Grant, o.Number = grant, 1 })
}

func (s *story) erases() *history.Op { return s.op(history.Erase, func(*history.Op) {}) }

func refused(o *history.Op) { o.Fate = history.Refused }
func unknown(o *history.Op) { o.Fate = history.Unknown }

func TestTheOracleJudges(t *testing.T) {
	for _, test := range []struct {
		name  string
		tell  func(s *story) oracle.Evidence
		fault string // of the promise; "": none
	}{
		{"updates in a row", func(s *story) (e oracle.Evidence) {
			s.reads("")
			s.updates("", "v1")
			s.reads("v1")
			s.updates("v1", "v2")
			return final("v2")
		}, ""},
		{"a lost update", func(s *story) (e oracle.Evidence) {
			s.reads("")
			s.updates("", "v1")
			s.reads("v1")
			s.reads("v1")
			s.updates("v1", "v2")
			s.updates("v1", "v3")
			return e
		}, "no update is lost"},
		{"a stale update behind a blind one", func(s *story) (e oracle.Evidence) {
			s.reads("")
			s.writes("v1")
			s.updates("", "v2")
			return e
		}, "an order explains"},
		{"a stale read", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2")
			s.reads("v1")
			return e
		}, "an order explains"},
		{"the last value is another", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2")
			return final("v1")
		}, "an order explains"},
		{"an unknown update that was seen much later", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2", unknown)
			s.reads("v1")
			s.reads("v2")
			return e
		}, ""},
		{"an unknown update that was not seen", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2", unknown)
			s.updates("v1", "v3")
			return final("v3")
		}, ""},
		{"an unknown update that has undone another", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2", unknown)
			s.updates("v1", "v3")
			return final("v2")
		}, "no update is lost"},
		{"a refused update that was written", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1", refused)
			s.reads("v1")
			return e
		}, "what is refused"},
		{"an update of what was erased", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.erases()
			s.updates("v1", "v2")
			return e
		}, "an order explains"},
		{"updates of nothing before and behind an erasure", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.erases()
			s.updates("", "v2")
			return e
		}, ""},
		{"pushes", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 1)
			s.pushes("p2", 2, unknown)
			s.pushes("p3", 0, unknown)
			s.pushes("p4", 3)
			return final("", "p1", "p2", "p4")
		}, ""},
		{"a push that is not there", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 1)
			s.pushes("p2", 0)
			return final("", "p1")
		}, "what is acknowledged"},
		{"a push that is there twice", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 1, unknown)
			return final("", "p1", "p1")
		}, "each push is applied once"},
		{"a push in another place", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 1)
			s.pushes("p2", 3)
			return final("", "p1", "p2")
		}, "pushes keep their order"},
		{"pushes in another order", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 0)
			s.pushes("p2", 0)
			return final("", "p2", "p1")
		}, "pushes keep their order"},
		{"a push that was refused", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 0, refused)
			return final("", "p1")
		}, "what is refused"},
		{"a push that comes back", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 1)
			erased := s.erases()
			e = final("", "p1")
			e.Erased = map[string]map[string]oracle.Final{erased.Name(): {"s": {List: []string{"p1"}}}}
			return e
		}, "what is erased"},
		{"a push that was erased too early", func(s *story) (e oracle.Evidence) {
			s.pushes("p1", 1)
			erased := s.erases()
			e.Erased = map[string]map[string]oracle.Final{erased.Name(): {"s": {}}}
			return e
		}, "what is acknowledged"},
		{"counts", func(s *story) (e oracle.Evidence) {
			s.counts(1)
			s.counts(2)
			e = final("")
			e.Final["s"] = oracle.Final{Count: 2}
			return e
		}, ""},
		{"a count that was applied twice", func(s *story) (e oracle.Evidence) {
			s.counts(1)
			s.counts(2)
			e = final("")
			e.Final["s"] = oracle.Final{Count: 3}
			return e
		}, "each count"},
		{"two counts with one answer", func(s *story) (e oracle.Evidence) {
			s.counts(1)
			s.counts(1)
			return e
		}, "each count"},
		{"work under grants", func(s *story) (e oracle.Evidence) {
			s.acquires(5)
			s.under(5, "", "v1")
			s.releases(5)
			s.updates("v1", "v2")
			s.acquires(7)
			s.under(7, "v2", "v3")
			return final("v3")
		}, ""},
		{"a grant that is given twice", func(s *story) (e oracle.Evidence) {
			s.acquires(5)
			s.acquires(5)
			return e
		}, "grants only grow"},
		{"a grant that was released", func(s *story) (e oracle.Evidence) {
			s.acquires(5)
			s.releases(5)
			s.under(5, "", "v1")
			return e
		}, "an order explains"},
		{"a grant behind which others have written", func(s *story) (e oracle.Evidence) {
			s.acquires(5)
			s.updates("", "v1")
			s.under(5, "v1", "v2")
			return e
		}, "an order explains"},
		{"a write while a grant stands", func(s *story) (e oracle.Evidence) {
			hold := s.acquires(5)
			hold.TTL = 1e12
			s.writes("v1")
			return e
		}, "a hold is one's alone"},
		{"a read from a primary that was replaced", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2")
			s.reads("v1")
			s.updates("v2", "v3")
			e.Stale = true
			return e
		}, ""},
		{"what only a primary that was replaced has had", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2", unknown)
			s.reads("v2")
			s.updates("v1", "v3")
			e.Stale = true
			return e
		}, ""},
		{"unknown updates that go back to each other", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2", unknown)
			s.updates("v2", "v3", unknown)
			s.updates("v3", "v4")
			e.Stale = true
			return e
		}, ""},
		{"an update that a primary has lost", func(s *story) (e oracle.Evidence) {
			s.updates("", "v1")
			s.updates("v1", "v2")
			s.writes("v3")
			s.updates("v2", "v4")
			e.Stale = true
			return e
		}, "an order explains"},
		{"a write while a grant may have been lost", func(s *story) (e oracle.Evidence) {
			hold := s.acquires(5)
			hold.TTL = 1e12
			s.writes("v1")
			e.Disturbed = [][2]int64{{hold.Call, hold.Return}}
			return e
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &story{}
			e := test.tell(s)
			e.Ops, e.Audited, e.Pictures = s.ops, s.now+10, t.TempDir()
			v := oracle.Judge(e)
			switch {
			case v == nil && test.fault != "":
				t.Errorf("nothing was found; want %q", test.fault)
			case v != nil && (test.fault == "" || !strings.HasPrefix(v.Promise, test.fault)):
				t.Errorf("found %v; want %q", v, test.fault)
			case v != nil && strings.HasPrefix(v.Promise, "an order"):
				if _, err := os.Stat(v.Picture); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func final(value string, list ...string) oracle.Evidence {
	return oracle.Evidence{Final: map[string]oracle.Final{"s": {Value: value, List: list}}}
}

// In a long history a mistake is found wherever it is, and what is shown is short.
func TestAMistakeIsFoundInALongHistoryAndShownShort(t *testing.T) {
	for _, at := range []int{3, 1195, 2500, 4990} {
		s := &story{}
		last := ""
		for i := range 5000 {
			value := fmt.Sprint("v", i)
			if i == at {
				s.reads("v0")
			}
			s.updates(last, value)
			last = value
		}
		v := oracle.Judge(oracle.Evidence{Ops: s.ops})
		if v == nil {
			t.Fatalf("a stale read at %d was not found", at)
		}
		if len(v.Ops) > 4 {
			t.Errorf("it is shown in %d ops", len(v.Ops))
		}
	}
}

// What takes long, and reaches from one window into the next, is no mistake.
func TestWindowsOverlap(t *testing.T) {
	s := &story{}
	last := ""
	for i := range 4000 {
		value := fmt.Sprint("v", i)
		o := s.updates(last, value)
		if i%7 == 0 {
			o.Return += 60 // the next ones go back to it already
		}
		if i%11 == 0 {
			o.Fate = history.Unknown
		}
		s.reads(value)
		last = value
	}
	if v := oracle.Judge(oracle.Evidence{Ops: s.ops}); v != nil {
		t.Error(v)
	}
}
