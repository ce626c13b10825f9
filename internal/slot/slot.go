// Package slot says in which hash slot of a Redis Cluster a key is (Redis Cluster specification, "Hash tags").
package slot

import "bytes"

// Count is how many hash slots a Redis Cluster has.
const Count = 16384

// Of returns the slot of a key, 0 to Count-1: that of its hash tag, if it has one.
func Of(key []byte) int {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return int(crc16(key)) % Count
}

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
