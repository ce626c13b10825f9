// Command agent works on sessions in Redis until its standard input ends, and writes what it asks for and hears to
// its standard output, a line of JSON each: one when it sends a command, and one when it knows what became of it.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

func main() {
	addr := flag.String("addr", "", "the proxy's `address`")
	name := flag.String("name", "a", "this agent's name")
	seed := flag.Uint64("seed", 1, "what its work follows from")
	sessions := flag.Int("sessions", 4, "how many sessions there are")
	mix := flag.String("mix", defaultMix, "how often which work is done: `name=weight,…`")
	think := flag.Duration("think", defaultThink, "how long it thinks, at most")
	flag.Parse()

	w, err := newWorker(*name, *mix)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(2)
	}
	w.random = rand.New(rand.NewPCG(*seed, 1))
	w.sessions, w.think = *sessions, *think
	w.client, w.grants = client(*addr), client(*addr)
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	for !over.Load() {
		w.turn()
	}
}

func client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: 2, MaxRetries: -1, DialTimeout: dialTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
		DialerRetries: 1, DisableIdentity: true,
	})
}
