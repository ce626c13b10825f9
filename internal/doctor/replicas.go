package doctor

import "context"

// replicas looks at whether a primary that has lost its replicas goes on taking writes, which a failover then drops.
func replicas(ctx context.Context, e *exam) {
	if role, err := e.info(ctx, "role"); err != nil || role != "master" {
		return // told by role
	}
	n, _ := e.number(ctx, "connected_slaves")
	least, err := e.settingNumber(ctx, "min-replicas-to-write")
	switch {
	case err != nil && n == 0:
		e.ok("no replica is connected")
	case err != nil:
		e.unsure(err, "min-replicas-to-write should be 1 or more where a replica may be promoted")
	case n == 0 && least == 0:
		e.ok("no replica is connected, so none can be promoted")
	case least == 0:
		e.warn("set min-replicas-to-write 1 (and min-replicas-max-lag 10)",
			"%d replicas, min-replicas-to-write 0: a primary that is cut off from them goes on acknowledging writes, which a failover then drops", n)
	case n < least:
		e.fail("bring replicas back, or lower min-replicas-to-write", "%d replicas of the %d that min-replicas-to-write asks for: Redis refuses every write (NOREPLICAS)", n, least)
	default:
		lag, _ := e.settingNumber(ctx, "min-replicas-max-lag")
		e.ok("%d replicas, min-replicas-to-write %d, min-replicas-max-lag %d", n, least, lag)
	}
}
