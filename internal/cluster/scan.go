package cluster

import (
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A SCAN goes through all primaries, one after the other. Its cursor says how far it is, to every proxy in front of the
// cluster alike:
//
//	the node's own cursor | topology, 12 bits | pass, 5 bits | node, 9 bits
//
// SCAN promises that what is there from its beginning to its end is returned. A slot that moves to a node which was scanned
// already would break that. So the cursor has a sum of who owns what: if that is another at the end than it was at the
// beginning, all nodes are scanned once more, up to 31 times. Elements may so come twice, as with any SCAN.
const (
	nodeBits = 9
	passBits = 5
	sumBits  = 12
	allBits  = nodeBits + passBits + sumBits
)

// scanPlace is a cursor taken apart.
type scanPlace struct {
	cursor uint64 // the node's own
	sum    uint64 // of the topology when the pass began
	pass   uint64
	node   uint64 // its place among the primaries plus one; 0: at the beginning
}

func (p scanPlace) String() string {
	return strconv.FormatUint(p.cursor<<allBits|p.sum<<(nodeBits+passBits)|p.pass<<nodeBits|p.node, 10)
}

func placeOf(cursor uint64) scanPlace {
	return scanPlace{
		cursor: cursor >> allBits, sum: cursor >> (nodeBits + passBits) & (1<<sumBits - 1),
		pass: cursor >> nodeBits & (1<<passBits - 1), node: cursor & (1<<nodeBits - 1),
	}
}

func (t *topology) scanSum() uint64 { return uint64(t.sum) & (1<<sumBits - 1) }

// scan sends SCAN to the node that its cursor is at.
func (f *front) scan(r *request) error {
	if len(r.args) < 2 {
		return f.one(r, same)
	}
	cursor, err := strconv.ParseUint(string(r.args[1]), 10, 64)
	if err != nil {
		return f.one(r, same) // which says what is wrong
	}
	t := f.topology
	at := placeOf(cursor)
	if at.node == 0 {
		at = scanPlace{sum: t.scanSum(), node: 1}
	}
	if at.node > uint64(len(t.primaries)) { // there are fewer by now
		at = scanPlace{sum: t.scanSum(), pass: min(at.pass+1, 1<<passBits-1), node: 1}
	}
	f.args = append(f.args[:0], r.args...)
	f.args[1] = strconv.AppendUint(nil, at.cursor, 10)
	e := entry{kind: part, slot: elsewhere, raw: resp.AppendCommand(nil, f.args...), repeats: true}
	clear(f.args)
	n := t.primaries[at.node-1]
	if c, err := f.at(n); err != nil {
		e.again = unreached(n, err)
		e.again.last = true
	} else {
		e.c = c
	}
	e.job = newJob(1, func(replies [][]byte) []byte { return scanned(replies[0], at, t) })
	f.put(&e)
	return nil
}

func same(reply []byte) []byte { return reply }

// scanned puts the next cursor into a reply to SCAN.
func scanned(reply []byte, at scanPlace, t *topology) []byte {
	_, head, ok := header(reply)
	if !ok {
		return reply
	}
	var framer resp.Framer
	n, done, err := framer.Scan(reply[head:])
	if err != nil || !done {
		return reply
	}
	v, _, err := resp.ParseValue(reply[head:])
	if err != nil {
		return reply
	}
	if at.cursor, err = strconv.ParseUint(string(v.Str), 10, 64); err != nil {
		return reply
	}
	if at.cursor>>(64-allBits) != 0 {
		return resp.AppendError(nil, "ERR fence-proxy: a node's cursor is too large to be one of many")
	}
	next := at.String()
	if at.cursor == 0 {
		next = at.after(t)
	}
	out := append([]byte(nil), reply[:head]...)
	out = resp.AppendBulkString(out, next)
	return append(out, reply[head+n:]...)
}

// after is the cursor behind the last element of a node.
func (p scanPlace) after(t *topology) string {
	p.cursor = 0
	p.node++
	if p.node <= uint64(len(t.primaries)) && p.node < 1<<nodeBits {
		return p.String()
	}
	if sum := t.scanSum(); sum != p.sum && p.pass < 1<<passBits-1 {
		return scanPlace{sum: sum, pass: p.pass + 1, node: 1}.String()
	}
	return "0"
}
