package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/cluster"
	"github.com/fence-proxy/fence-proxy/internal/sentinel"
)

// said is an error reply.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

var _ redis.Error = said("")

func TestOnlyWhatMayBeOverSoonIsWaitedFor(t *testing.T) {
	t.Parallel()
	for passes, all := range map[bool][]error{
		true: {
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
			&net.OpError{Op: "read", Err: syscall.ECONNRESET},
			&net.DNSError{Err: "no such host", Name: "redis", IsNotFound: true},
			io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, sentinel.ErrUnsettled, cluster.ErrNoSlots,
			said("LOADING Redis is loading the dataset in memory"),
			said("MASTERDOWN Link with MASTER is down"),
			said("CLUSTERDOWN The cluster is down"),
			said("BUSY Redis is busy running a script"),
			said("ERR max number of clients reached"),
		},
		false: {
			nil, errors.New("anything else"), context.Canceled,
			said("WRONGPASS invalid username-password pair"),
			said("NOAUTH Authentication required."),
			said("NOPERM this user has no permissions to run the 'watch' command"),
			said("ERR DB index is out of range"),
			&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")},
			x509.UnknownAuthorityError{},
		},
	} {
		for _, err := range all {
			if err != nil {
				err = fmt.Errorf("upstream redis://redis:6379: %w", err)
			}
			if mayPass(err) != passes {
				t.Errorf("%v: passes is %v", err, !passes)
			}
		}
	}
}
