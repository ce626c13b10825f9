package tokenstore

import (
	"strconv"
	"sync"

	"github.com/fence-proxy/fence-proxy/internal/slot"
)

// Slot names a hash slot of a Redis Cluster, as a text that hashes to it; "": there is no cluster. The same slot has
// the same name at every proxy.
type Slot string

// SlotOf returns the slot of a key: that of its hash tag, if it has one (Redis Cluster specification, "Hash tags").
func SlotOf(key []byte) Slot {
	return slotNames()[slot.Of(key)]
}

// slotNames are the names of all slots: the first number in base 36 that hashes to each.
var slotNames = sync.OnceValue(func() *[slot.Count]Slot {
	var names [slot.Count]Slot
	var text []byte
	for n, left := uint64(0), slot.Count; left > 0; n++ {
		text = strconv.AppendUint(text[:0], n, 36)
		if at := slot.Of(text); names[at] == "" {
			names[at] = Slot(text)
			left--
		}
	}
	return &names
})
