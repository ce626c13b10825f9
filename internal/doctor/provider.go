package doctor

import "context"

// lockProvider asks the lock provider whether it would grant.
func lockProvider(ctx context.Context, e *exam) {
	name := e.Config.Lock.Provider
	if e.Locker == nil {
		e.ok("%s: Redis itself grants", name)
		return
	}
	locker, err := e.Locker()
	if err != nil {
		e.fail("see lock."+name, "%s can't be used: %s", name, reason(err))
		return
	}
	defer func() { _ = locker.Close(ctx) }()
	if err := locker.Check(ctx); err != nil {
		e.fail("see lock."+name+" and whether it runs: until it answers, guarded commands are refused (FENCEDOWN)", "%s would not grant: %s", name, reason(err))
		return
	}
	e.ok("%s answers and would grant", name)
}
