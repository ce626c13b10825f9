package tokenstore_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func TestTheRecordTellsWhatBecameOfACommit(t *testing.T) {
	const floor = 1000
	holder := tokenstore.Commit{Grant: 900, Seq: 2}
	apart := tokenstore.Commit{Grant: 900, Apart: true}
	blind := tokenstore.Commit{Seq: 77}
	seen := tokenstore.Commit{Seq: 77, Read: tokenstore.Stamp{Grant: 1100, Seq: 3}}
	passed := tokenstore.Commit{Passed: true}
	for name, c := range map[string]struct {
		commit              tokenstore.Commit
		newest, stored, seq uint64
		want                tokenstore.Fate
		grant               uint64
	}{
		"a holder's, stored":                             {holder, 900, 900, 2, tokenstore.Applied, 900},
		"a holder's, stored, and another granted":        {holder, 950, 900, 2, tokenstore.Applied, 900},
		"a holder's, after its first":                    {holder, 900, 900, 1, tokenstore.Skipped, 0},
		"a holder's, after an earlier grant's":           {holder, 900, 800, 9, tokenstore.Skipped, 0},
		"a holder's, nothing stored":                     {holder, 900, 0, 0, tokenstore.Skipped, 0},
		"a holder's, somebody looked":                    {holder, 900, 900, 0, tokenstore.Skipped, 0},
		"a holder's, superseded":                         {holder, 950, 800, 9, tokenstore.Skipped, 0},
		"a holder's, superseded by one who has written":  {holder, 950, 950, 1, tokenstore.Untold, 0},
		"a holder's, with a later write of its own":      {holder, 900, 900, 3, tokenstore.Untold, 0},
		"a holder's, in a record that may be a new one":  {holder, 950, 0, 0, tokenstore.Untold, 0},
		"a holder's, in one that somebody has looked at": {holder, 950, 950, 0, tokenstore.Untold, 0},
		"a holder's, in a record from before":            {holder, 890, 800, 9, tokenstore.Untold, 0},
		"a holder's, without a record":                   {holder, 0, 0, 0, tokenstore.Untold, 0},
		"a blind one, stored":                            {blind, 1200, 1200, 77, tokenstore.Applied, 1200},
		"a blind one, stored, and another granted":       {blind, 1300, 1200, 77, tokenstore.Applied, 1200},
		"a blind one, the same number from before":       {blind, 990, 990, 77, tokenstore.Skipped, 0},
		"a blind one, nobody came":                       {blind, 1000, 990, 1, tokenstore.Skipped, 0},
		"a blind one, nobody came at all":                {blind, 1000, 0, 0, tokenstore.Skipped, 0},
		"a blind one, nobody wrote":                      {blind, 1300, 990, 1, tokenstore.Skipped, 0},
		"a blind one, somebody wrote":                    {blind, 1300, 1300, 1, tokenstore.Untold, 0},
		"a blind one, in a record that may be a new one": {blind, 1300, 0, 0, tokenstore.Untold, 0},
		"a blind one, somebody looked at one":            {blind, 1300, 1300, 0, tokenstore.Untold, 0},
		"a blind one, without a record":                  {blind, 0, 0, 0, tokenstore.Untold, 0},
		"one that has looked, nobody wrote":              {seen, 1300, 1100, 3, tokenstore.Skipped, 0},
		"one that has looked, stored":                    {seen, 1300, 1200, 77, tokenstore.Applied, 1200},
		"one that has looked, somebody wrote":            {seen, 1300, 1200, 3, tokenstore.Untold, 0},
		"one apart, nothing stored under its grant":      {apart, 900, 800, 9, tokenstore.Skipped, 0},
		"one apart, something stored under its grant":    {apart, 900, 900, 1, tokenstore.Untold, 0},
		"one that passed":                                {passed, 900, 900, 2, tokenstore.Untold, 0},
	} {
		t.Run(name, func(t *testing.T) {
			token := tokenstore.Token{Grant: c.newest, StoredGrant: c.stored, StoredSeq: c.seq, Provider: "redis"}
			fate, grant := c.commit.FateOf(token, "redis", floor)
			if fate != c.want || grant != c.grant {
				t.Errorf("got %d under grant %d, want %d under %d", fate, grant, c.want, c.grant)
			}
			if fate, _ := c.commit.FateOf(token, "etcd", floor); fate != tokenstore.Untold {
				t.Errorf("another provider's record tells %d", fate)
			}
		})
	}
}

// A record that was lost may be begun anew by a grant from before: one that was given, and not registered yet.
func TestANewerGrantFromElsewhereDoesNotTellWhatBecameOfACommit(t *testing.T) {
	c := tokenstore.Commit{Grant: 9, Seq: 1}
	for name, tc := range map[string]struct {
		newest, stored, seq uint64
		want                tokenstore.Fate
	}{
		"stored, and another granted":        {11, 9, 1, tokenstore.Applied},
		"its grant is the newest":            {9, 8, 1, tokenstore.Skipped},
		"a newer one, and an older one's":    {11, 8, 1, tokenstore.Untold},
		"a newer one, and nothing is stored": {11, 0, 0, tokenstore.Untold},
	} {
		t.Run(name, func(t *testing.T) {
			token := tokenstore.Token{Grant: tc.newest, StoredGrant: tc.stored, StoredSeq: tc.seq, Provider: "etcd"}
			if fate, _ := c.FateOf(token, "etcd", 0); fate != tc.want {
				t.Errorf("got %d, want %d", fate, tc.want)
			}
		})
	}
}
