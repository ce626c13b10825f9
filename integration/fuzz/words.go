package fuzz

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// keys are the keys of one client: few, so that commands of all types meet on them. Among several
// clients each has a suffix of its own.
type keys struct{ suffix string }

// byGroup are the keys that the commands of a group mostly use.
var byGroup = map[string][]string{
	"string": {"s1", "s2", "n1"}, "bitmap": {"b1", "s1"}, "hyperloglog": {"p1", "p2"},
	"hash": {"h1", "h2"}, "list": {"l1", "l2"}, "set": {"t1", "t2", "t3"}, "sorted-set": {"z1", "z2"},
	"stream": {"x1", "x2"}, "geo": {"g1", "g2"},
}

var allKeys = []string{
	"s1", "s2", "n1", "b1", "p1", "p2", "h1", "h2", "l1", "l2", "t1", "t2", "t3", "z1", "z2", "x1", "x2", "g1", "g2",
	"none", "", "\x00\xff\r\n ", "{h1}:x", "a:b:c", "*", strings.Repeat("long", 50),
}

func (k keys) pick(rng *rand.Rand, group string) string {
	names := byGroup[group]
	if len(names) == 0 || rng.IntN(5) == 0 {
		names = allKeys
	}
	name := one(rng, names)
	for strings.HasPrefix(k.suffix, "{") && strings.Contains(name, "{") { // its tag would be another
		name = one(rng, names)
	}
	return name + k.suffix
}

var integers = []string{
	"0", "1", "-1", "2", "3", "-2", "10", "100", "-100", "5", "127", "128", "255", "256", "-129", "65536",
	"2147483647", "2147483648", "-2147483649", "4294967295", "4294967296", "9007199254740993",
	"9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616",
}

var doubles = []string{
	"0", "1", "-1", "2.5", "0.1", "-0", "1e3", "3.0e3", "1e300", "-1e308", "1.7976931348623157e308", "5e-324", "inf", "-inf", "+inf",
	"13.361389", "38.115556", "15.087269", "37.502669", "180", "-85.05112878", "200", "3.141592653589793238",
}

var strange = []string{
	"", " ", "x", "nan", "+1", "01", " 1", "1 ", "1.5", "1e3", "0x10", "--1", "\x00", "\r\n", "\xff\xfe", "*3\r\n$3\r\n",
	"\"", "'", "\\x00", "OK", "é", strings.Repeat("v", 70), strings.Repeat("w\x00", 600),
}

var values = []string{
	"a", "b", "c", "d", "1", "2", "3", "10", "-1", "3.5", "v", "value", "", "\x00\x01\xfe\xff", "line\r\nbreak",
	"9223372036854775807", "9007199254740993", "one", "two", strings.Repeat("x", 65), "ohmytext", "mynewtext",
}

var patterns = []string{"*", "?1", "h*", "[a-z]*", "[^s]?", "", "none", "\\*", "*:*", "s1", "w_*", "h*->a", "#", "nosort"}

// scripts only touch the keys that they are given, and answer the same whenever and wherever they run.
var scripts = []string{
	"return 1", "return {1, 2.9, false, 'x', {ok='fine'}, {}, {1, {2}}}", "return redis.call('get', KEYS[1])",
	"return redis.call('set', KEYS[1], ARGV[1])", "return redis.call('incr', KEYS[1])", "return redis.pcall('incr', KEYS[1])",
	"return redis.call('lpush', KEYS[1], ARGV[1], ARGV[2])", "return redis.call('type', KEYS[1])", "return {KEYS, ARGV}",
	"redis.setresp(3); return redis.call('zrange', KEYS[1], 0, -1, 'withscores')", "redis.setresp(3); return {double=3.5}",
	"return redis.error_reply('MINE broken')", "return redis.status_reply('fine')", "error('boom')", "this is no lua", "",
	"return redis.call('nonsense')", "return redis.sha1hex(ARGV[1])", "return tostring(#KEYS)", "return 9007199254740993",
	"local a = redis.call('exists', KEYS[1]); if a == 1 then return redis.call('del', KEYS[1]) end; return false",
	"#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])", "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 1)",
	"#!lua name=x\nreturn 1", "return redis.call('select', 1)", "redis.setresp(3); return {map={a=1}}", "redis.setresp(3); return {set={a=true}}",
}

var digests = []string{
	"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f",
	"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "ffffffffffffffffffffffffffffffffffffffff", "short", "",
}

var libraries = []string{
	"#!lua name=lib\nredis.register_function('fput', function(k, a) return redis.call('set', k[1], a[1]) end)\n" +
		"redis.register_function{function_name='fget', callback=function(k) return redis.call('get', k[1]) end, flags={'no-writes'}}",
	"#!lua name=lib2\nredis.register_function('fcount', function(k, a) return {#k, #a} end)",
	"#!lua name=lib\nnonsense(", "#!js name=x\n", "no header", "",
}

// dumps are payloads of DUMP: a string, a list, a hash, a set, a broken one, and nothing.
var dumps = []string{
	"\x00\x01\x76\x0a\x00\x91\x08\xce\xb2\x19\x38\x8a\xce",
	"\x12\x01\x02\x0d\x0d\x00\x00\x00\x02\x00\x81\x61\x02\x81\x62\x02\xff\x0a\x00\x68\xeb\x0a\x89\x13\x41\xbb\xb1",
	"\x10\x0d\x0d\x00\x00\x00\x02\x00\x81\x66\x02\x81\x76\x02\xff\x0a\x00\x20\xf1\x3d\x44\x23\x54\x08\x9d",
	"\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00\x0a\x00\x6f\x79\x38\xb1\x34\xeb\x20\x2e",
	"\x00\x01\x76\x0a\x00\x91\x08\xce\xb2\x19\x38\x8a\xcf",
	"",
}

// byName are the words of arguments whose name in COMMAND DOCS tells more than their type.
var byName = map[string][]string{
	"id":               {"0", "$", ">", "0-0", "1-1", "2-1", "3-*", "5-*", "7", "9-9", "-", "+", "(1-1", "18446744073709551615-18446744073709551615", "x"},
	"start":            {"-", "+", "0", "-1", "1", "[a", "(b", "(1", "-inf", "+inf", "1-1", "2", "0-1", "(1-1"},
	"end":              {"+", "-", "-1", "0", "2", "[z", "(c", "+inf", "3-1", "100", "(2-1"},
	"stop":             {"-1", "0", "1", "2", "[z", "+", "(3", "+inf"},
	"min":              {"-", "-inf", "0", "(1", "[a", "(a", "1", "nan"},
	"max":              {"+", "+inf", "10", "(3", "[z", "(c", "3"},
	"group":            {"gr1", "gr2", "STREAMS", ""},
	"groupname":        {"gr1", "gr2", ""},
	"consumer":         {"c1", "c2", "STREAMS"},
	"consumername":     {"c1", "c2"},
	"script":           scripts,
	"sha1":             digests,
	"function":         {"fput", "fget", "fcount", "FPUT", "fnone"},
	"function-code":    libraries,
	"library-name":     {"lib", "lib2", "none"},
	"serialized-value": dumps,
	"operation":        {"AND", "or", "XOR", "NOT", "NAND"},
	"encoding":         {"u8", "i8", "u1", "i64", "u63", "u64", "i65", "I16", "x"},
	"offset":           {"0", "1", "7", "#0", "#1", "#3", "-1", "100", "1000", "x", "4294967296", "9223372036854775807"},
	"min-idle-time":    {"0", "0", "20000000", "-1", "x"},
	"subcommand":       {"GETREG", "ENCODING", "DECODE", "TODENSE", "x"},
	"db":               {"0", "1", "9", "15", "16", "-1", "x"},
	"index":            {"0", "1", "-1", "9", "15", "2", "99"},
	"destination-db":   {"0", "1", "16"},
	"username":         {"default", "nobody", ""},
	"password":         {"", "pw"},
	"protover":         {"2", "3", "3", "2", "4", "x"},
	"clientname":       {"me", "", "with space"},
	"connection-name":  {"me", "", "with space"},
	"channel":          {"ch1", "ch2", ""},
	"shardchannel":     {"ch1", "sh1"},
	"section":          {"server", "commandstats", "keyspace", "all", "nonsense"},
	"threshold":        {"0", "1", "2", "2-1", "x"},
	"category":         {"read", "write", "nonsense"},
	"categoryname":     {"string", "nonsense"},
	"command":          {"get", "SET", "nonsense", "client|id"},
	"command-name":     {"get", "xgroup|create", "nonsense", "SET"},
	"parameter":        {"maxmemory", "*policy*", "nonsense"},
	"type":             {"string", "hash", "list", "nonsense"},
	"member":           {"a", "b", "c", "d", "1", "2", "3", "Palermo", "Catania", "", "\x00\xff"},
	"element":          {"a", "b", "c", "1", "2", "x", ""},
	"field":            {"a", "b", "c", "f", "1", ""},
	"pivot":            {"a", "b", "none"},
	"longitude":        {"13.361389", "15.087269", "0", "-180", "181", "x"},
	"latitude":         {"38.115556", "37.502669", "0", "-85.05", "86"},
	"radius":           {"200", "0", "1e9", "-1", "x"},
	"width":            {"400", "0", "-1"},
	"height":           {"400", "0"},
	"score":            {"0", "1", "2", "2.5", "-1", "inf", "-inf", "nan", "1e300", "x"},
}

// one of the words.
func one(rng *rand.Rand, words []string) string { return words[rng.IntN(len(words))] }

// word makes a word for an argument.
func word(rng *rand.Rand, a argument) string {
	if rng.IntN(25) == 0 {
		return one(rng, strange)
	}
	if words := byName[a.name]; words != nil && rng.IntN(8) > 0 {
		return one(rng, words)
	}
	switch a.kind {
	case "integer":
		if rng.IntN(2) == 0 {
			return one(rng, integers[:8])
		}
		return one(rng, integers)
	case "double":
		return one(rng, doubles)
	case "unix-time":
		return one(rng, times)
	case "pattern":
		return one(rng, patterns)
	}
	if rng.IntN(6) == 0 {
		return one(rng, slices.Concat(integers, doubles))
	}
	return one(rng, values)
}

// anyCase spells a word in some letter case.
func anyCase(rng *rand.Rand, w string) string {
	switch rng.IntN(6) {
	case 0:
		return strings.ToLower(w)
	case 1:
		b := []byte(w)
		for i := range b {
			if rng.IntN(2) == 0 {
				b[i] = strings.ToLower(w[i : i+1])[0]
			}
		}
		return string(b)
	}
	return w
}

// token spells an option: to the server it ends at a NUL byte. (Whether it finds a command's name
// with one depends on a hash seed.)
func token(rng *rand.Rand, w string) string {
	if rng.IntN(100) == 0 {
		return w + "\x00"
	}
	return anyCase(rng, w)
}
