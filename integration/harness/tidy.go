package harness

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// tidyUp gives this process, and those that it starts, a temporary directory of their own. The returned function removes it, and so
// does a signal that ends the process: no test's own clean-up runs then.
func tidyUp() (remove func()) {
	dir, err := os.MkdirTemp("", "fence-tests-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a temporary directory:", err)
		os.Exit(1)
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer close(done)
		if s, ok := <-signals; ok {
			_ = os.RemoveAll(dir)
			_ = os.RemoveAll(dir) // of what servers have written meanwhile; they end with this process
			fmt.Fprintln(os.Stderr, "ended by a signal:", s)
			os.Exit(1)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
		_ = os.RemoveAll(dir)
	}
}
