package doctor

import "context"

// role looks at whether the node takes writes.
func role(ctx context.Context, e *exam) {
	role, err := e.info(ctx, "role")
	if err != nil {
		e.unsure(err, "INFO replication must say role:master")
		return
	}
	if loading, _ := e.info(ctx, "loading"); loading == "1" {
		e.warn("wait until it has loaded", "is loading its data: commands are refused until that is done")
	}
	switch role {
	case "master":
		e.ok("is a primary")
	case "slave":
		host, _ := e.info(ctx, "master_host")
		port, _ := e.info(ctx, "master_port")
		e.fail("point upstream.url at the primary, or at Sentinel", "is a replica of %s:%s: it refuses every write, and the fence with it", host, port)
	default:
		e.warn("point upstream.url at the Redis that has the data", "has the role %q", role)
	}
}
