package doctor

import (
	"context"
	"strconv"
)

// kill tries whether the proxy may end one of its own connections at Redis, to be sure that one that it has lost does nothing any more.
func kill(ctx context.Context, e *exam) {
	const remedy = "give the proxy's user +client|id +client|kill: then it ends a connection that it has lost, and knows that nothing comes of it any more"
	conn := e.Redis.Conn()
	defer conn.Close()
	id, err := conn.ClientID(ctx).Result()
	if err == nil {
		var n int64
		n, err = e.Redis.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Result()
		if err == nil && n == 0 {
			e.warn(remedy, "CLIENT KILL ID found no such connection: is there another proxy between?")
			return
		}
	}
	switch {
	case err == nil:
		e.ok("the proxy may end its own connections at Redis (CLIENT KILL ID)")
	case refused(err):
		e.warn(remedy, "the proxy may not end connections at Redis: %s", reason(err))
	default:
		e.unsure(err, remedy)
	}
}
