package tokenstore

import (
	"bytes"
	"strconv"
	"sync"
)

// Slots is how many hash slots a Redis Cluster has.
const Slots = 16384

// Slot names a hash slot of a Redis Cluster, as a text that hashes to it; "": there is no cluster. The same slot has
// the same name at every proxy.
type Slot string

// SlotOf returns the slot of a key: that of its hash tag, if it has one (Redis Cluster specification, "Hash tags").
func SlotOf(key []byte) Slot {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return slotNames()[crc16(key)%Slots]
}

// slotNames are the names of all slots: the first number in base 36 that hashes to each.
var slotNames = sync.OnceValue(func() *[Slots]Slot {
	var names [Slots]Slot
	var text []byte
	for n, left := uint64(0), Slots; left > 0; n++ {
		text = strconv.AppendUint(text[:0], n, 36)
		if at := crc16(text) % Slots; names[at] == "" {
			names[at] = Slot(text)
			left--
		}
	}
	return &names
})

// crc16 is CRC-16/XMODEM: polynomial 0x1021, from zero.
func crc16(data []byte) uint16 {
	var sum uint16
	for _, b := range data {
		sum = sum<<8 ^ crcTable[byte(sum>>8)^b]
	}
	return sum
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			if sum <<= 1; carry {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}()
