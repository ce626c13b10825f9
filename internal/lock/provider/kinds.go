package provider

// Kinds are the providers that there are, beside the store itself (redis).
var Kinds = []Kind{
	Etcd,
	Redlock,
	ZooKeeper,
	Consul,
	Kubernetes,
}

// Find returns the kind of a name.
func Find(name string) (Kind, bool) {
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
