package event

// Fan returns a sink that tells all of these, in their order; nil ones are left out, and nil is what comes of none.
func Fan(sinks ...Sink) Sink {
	var f fan
	for _, s := range sinks {
		if s != nil {
			f = append(f, s)
		}
	}
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return f
}

type fan []Sink

func (f fan) Event(e *Event) {
	for _, s := range f {
		s.Event(e)
	}
}
