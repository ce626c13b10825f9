// Package webhook puts fence-proxy beside agents: a mutating admission webhook that adds the sidecar to the pods that
// ask for it, and points their Redis URL at it.
//
//	API server ──AdmissionReview──▶ handler ──pod──▶ Decide ──▶ untouched: allowed as it is
//	                                                        ├─▶ injected:  allowed with a JSON patch
//	                                                        └─▶ skipped:   why, as annotation, warning and event
//
// A pod asks by the annotation fence-proxy/inject: "true". What its containers have in the variable REDIS_URL, be it text, a
// key of a Secret or of a ConfigMap, becomes the sidecar's upstream, and the variable becomes the sidecar's address. The
// webhook reads no Secret and no ConfigMap: the sidecar gets the same reference.
//
// [Decide] is the whole decision and needs no cluster. What the sidecar looks like is not its business: that is in the
// [Template], a file that the Helm chart writes, and is read again when it changes.
//
// A pod that asks and can't be helped is skipped: it is created as it was, and told why. With Template.Refuse it is not
// created. Whether pods are created while the webhook itself is away is the API server's affair (failurePolicy).
package webhook
