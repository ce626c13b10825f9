// Command gen writes the command table of a running Redis server as the facts
// file that package command embeds.
//
//	go run ./internal/command/gen -addr 127.0.0.1:6379 -o internal/command/builtin.txt
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "address of the server, 7.0 or newer, without modules")
	out := flag.String("o", "builtin.txt", "file to write")
	flag.Parse()

	if err := run(context.Background(), *addr, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, out string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	reply, err := client.Do(ctx, "COMMAND").Result()
	if err != nil {
		return fmt.Errorf("ask %s for its commands: %w", addr, err)
	}
	table, err := command.Parse(reply)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("# Commands of Redis 7.0: name, arity, flags, advice for clusters, key specs. Written by gen.\n")
	if _, err := table.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}
