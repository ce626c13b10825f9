package slot

import "testing"

// The sum is the check value of CRC-16/XMODEM, which the Redis Cluster specification names.
func TestTheSumOfSlotsIsRedisClusters(t *testing.T) {
	if sum := crc16([]byte("123456789")); sum != 0x31C3 {
		t.Errorf("%#x, want 0x31C3", sum)
	}
}

// As CLUSTER KEYSLOT of Redis 7.0 says.
func TestSlotsAreRedisClusters(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "a": 15495, "b": 3300, "a{b}c": 3300, "{}a": 10875, "a{}b": 13694, "x{y": 2740, "}{": 12793,
		"{{x}}": 11068, "{x": 11068, "{x}{y}": 16287, "x": 16287,
	} {
		if got := Of([]byte(key)); got != want {
			t.Errorf("%q is in slot %d, want %d", key, got, want)
		}
	}
}
