package lock

import "sync"

// inParallel does something with each of them, with so many at a time.
func inParallel[T any](most int, all []T, do func(T)) {
	each := make(chan T)
	var work sync.WaitGroup
	for range min(most, len(all)) {
		work.Go(func() {
			for one := range each {
				do(one)
			}
		})
	}
	for _, one := range all {
		each <- one
	}
	close(each)
	work.Wait()
}
