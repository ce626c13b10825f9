package provider

// EtcdLine is what the keys of a session's places begin with.
var EtcdLine = etcdLine
