package provider

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestWhoWaitsForWhom(t *testing.T) {
	line := []string{"C-0000000012", "A-0000000009", "foreign", "B-0000000010", "odd-name", "D--2147483648", "E-2147483647"}
	for own, want := range map[string]string{
		"A-0000000009": "", "B-0000000010": "A-0000000009", "C-0000000012": "B-0000000010",
		"D--2147483648": "E-2147483647", // the servers count on from the largest number to the smallest
	} {
		ahead, there := zookeeperAhead(line, own)
		if ahead != want || !there {
			t.Errorf("%s waits for %q, in line: %v; want %q", own, ahead, there, want)
		}
	}
	if _, there := zookeeperAhead(line, "F-0000000011"); there {
		t.Error("a node that is gone is in line")
	}
}

func TestGrantsStayBelowTwoToThe53(t *testing.T) {
	const largest = 1<<53 - 1
	if grant, err := zookeeperGrant(&zk.Stat{Czxid: largest}); grant != largest || err != nil {
		t.Errorf("transaction 2^53-1 grants %d, %v", grant, err)
	}
	if grant, err := zookeeperGrant(&zk.Stat{Czxid: largest + 1}); err == nil || !strings.Contains(err.Error(), "too many leaders") {
		t.Errorf("transaction 2^53 grants %d, %v", grant, err)
	}
}
