package provider

import (
	"context"
	"errors"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ask asks etcd, for the time of a request as often as another attempt may succeed. If none does, the error is the last one that
// says more than that time was up.
func (s *EtcdSettings) ask(ctx context.Context, question func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.RequestTimeout)
	defer cancel()
	var trouble error
	for pause := newPause(); ; {
		err := question(ctx)
		if err == nil || !passing(err) {
			return err
		}
		if trouble == nil || ctx.Err() == nil {
			trouble = err
		}
		if !pause.wait(ctx) {
			return trouble
		}
	}
}

// passing says of an error that another attempt may succeed.
func passing(err error) bool {
	var code codes.Code
	var known rpctypes.EtcdError
	switch state, ok := status.FromError(err); {
	case errors.As(err, &known):
		code = known.Code()
	case ok:
		code = state.Code()
	default: // EOF is a stream's that etcd has ended
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || errors.Is(err, errEtcdSilent)
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unknown, codes.Canceled:
		return true
	}
	return false
}

// pause is the time between attempts: longer each time, up to a second.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{next: 20 * time.Millisecond} }

// wait is false when ctx ends.
func (p *pause) wait(ctx context.Context) bool {
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	p.next = min(2*p.next, time.Second)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
