package top

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fence-proxy/fence-proxy/internal/admin"
)

const (
	// besides are the lines of a frame that are no holds.
	besides = 13
	// usual is the size of a terminal that does not say.
	usualWidth, usualHeight = 80, 24

	enter = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	wipe  = "\x1b[K" // to the end of the line
	below = "\x1b[J" // and of the screen
)

// Live shows frames in a terminal until ctx ends, or q or ctrl-c is pressed.
func Live(ctx context.Context, in, out *os.File, c *admin.Client, query url.Values, every time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if fd := int(in.Fd()); term.IsTerminal(fd) {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		defer func() { _ = term.Restore(fd, before) }()
		go func() { // ends with the process: a read of a terminal can't be broken off
			quitKey(in)
			cancel()
		}()
	}
	fmt.Fprint(out, enter)
	defer fmt.Fprint(out, leave)
	for {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			width, height = usualWidth, usualHeight
		}
		frame, err := Ask(ctx, c, query, max(height-besides, 1))
		lines := frame.Lines(width, Marked)
		if err != nil {
			lines = []string{cut(err.Error(), width), "", "asking again; q quits"}
		}
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprint(out, screen(lines, height))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// screen paints lines over what was there before, so that nothing flickers.
func screen(lines []string, height int) string {
	return home + strings.Join(lines[:min(len(lines), height-1)], wipe+"\r\n") + wipe + below
}

// quitKey returns when q or ctrl-c was pressed, or there are no more keys.
func quitKey(in io.Reader) {
	key := make([]byte, 1)
	for {
		if _, err := in.Read(key); err != nil || key[0] == 'q' || key[0] == 3 {
			return
		}
	}
}
