package provider

import (
	"context"
	"errors"
	"net"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// leaseClient asks for the Leases of one namespace. client-go's own (kubernetes/typed/coordination/v1) is the same, but brings
// the types of all of Kubernetes along: 12 MB of the binary.
type leaseClient = *gentype.ClientWithList[*coordination.Lease, *coordination.LeaseList]

// newLeaseClient makes a client, and what closes its idle connections. It connects to nothing.
func newLeaseClient(s *KubernetesSettings) (leaseClient, func(), error) {
	config, namespace, err := kubeConfig(s)
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	if err := coordination.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	config.APIPath, config.GroupVersion = "/apis", &coordination.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.UserAgent = "fence-proxy"
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.QPS, config.Burst = -1, 0
	if s.QPS > 0 {
		config.QPS, config.Burst = float32(s.QPS), s.Burst
	}
	// Each call has a connection of its own, which goes with it when it hangs: over one shared connection of HTTP/2,
	// all calls would hang until it is found broken.
	config.NextProtos = []string{"http/1.1"}
	config.Dial = kubeDialer.DialContext
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, nil, err
	}
	leases := gentype.NewClientWithList(
		"leases", client, runtime.NewParameterCodec(scheme), namespace,
		func() *coordination.Lease { return &coordination.Lease{} },
		func() *coordination.LeaseList { return &coordination.LeaseList{} },
		gentype.PrefersProtobuf[*coordination.Lease](),
	)
	return leases, func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) }, nil
}

// kubeDialer finds a silent connection broken within half a minute: the watch is silent for long.
var kubeDialer = &net.Dialer{
	Timeout:         5 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
	Control:         limitUnanswered,
}

// kubeConfig is where the API server is, who we are there, and the namespace.
func kubeConfig(s *KubernetesSettings) (*rest.Config, string, error) {
	files := &clientcmd.ClientConfigLoadingRules{ExplicitPath: s.Kubeconfig}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.Context}
	overrides.Context.Namespace = s.Namespace
	source := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(files, overrides)
	config, err := source.ClientConfig()
	if err != nil {
		if s.Kubeconfig == "" {
			err = errors.New("this is no pod with a service account: set lock.kubernetes.kubeconfig, or automountServiceAccountToken: true for the pod")
		}
		return nil, "", err
	}
	namespace, _, err := source.Namespace()
	return config, namespace, err
}

// newKubeInstance is unique for each start of a proxy.
func newKubeInstance(proxy string) string { return proxy + "-" + rand.String(10) }

// brief is a context for one call: much shorter than the lease that may depend on it, so that a call that hangs is
// given up and repeated in time.
func (k *kubeLocker) brief(ctx context.Context, lease time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(k.RequestTimeout, lease/4))
}

// put stores a Lease if it is still the version that it was made from; false, if not: then the newer version is known by now.
// A call of which no answer came is repeated once: to store the same twice does no harm.
func (k *kubeLocker) put(ctx context.Context, lease *coordination.Lease, version uint64, duration time.Duration) (bool, error) {
	stored, err := k.store(ctx, lease, duration)
	if err != nil && kubeUnknown(err) && ctx.Err() == nil {
		stored, err = k.store(ctx, lease, duration)
	}
	switch {
	case err == nil:
		return true, k.see(stored)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && lease.UID != "":
		return false, k.catchUp(ctx, lease.Name, version, duration)
	default:
		return false, err
	}
}

func (k *kubeLocker) store(ctx context.Context, lease *coordination.Lease, duration time.Duration) (*coordination.Lease, error) {
	ctx, cancel := k.brief(ctx, duration)
	defer cancel()
	if lease.UID == "" {
		return k.leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	// The UID in it keeps a Lease that was deleted from being made anew.
	return k.leases.Update(ctx, lease, metav1.UpdateOptions{})
}

// catchUp gets to know what has changed since that version.
func (k *kubeLocker) catchUp(ctx context.Context, name string, version uint64, duration time.Duration) error {
	if k.known(name) != version {
		return nil
	}
	return k.look(ctx, name, version, duration)
}

// look asks for a Lease of which that version is known. The answer is at least as new.
func (k *kubeLocker) look(ctx context.Context, name string, version uint64, duration time.Duration) error {
	ctx, cancel := k.brief(ctx, duration)
	defer cancel()
	lease, err := k.leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return k.saw(lease, version)
	case apierrors.IsNotFound(err):
		k.gone(name, version)
		return nil
	default:
		return err
	}
}

// kubeUnknown says whether what was asked for may have happened, or may still happen, in spite of an error.
func kubeUnknown(err error) bool {
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsUnexpectedServerError(err) || status.Status().Code >= 500
}

// probe does all that a proxy has to do, with a Lease that there is not, and makes none.
func (k *kubeLocker) probe(ctx context.Context) error {
	name, dry := k.Prefix+".check", []string{metav1.DryRunAll}
	if _, err := k.leases.Get(ctx, name, metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := k.leases.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name}); err != nil {
		return err
	}
	// To update what isn't there needs the right to create, too.
	lease := &coordination.Lease{}
	lease.Name, lease.Labels = name, map[string]string{kubePrefixLabel: k.Prefix}
	if _, err := k.leases.Update(ctx, lease, metav1.UpdateOptions{DryRun: dry}); err != nil {
		return err
	}
	if err := k.leases.Delete(ctx, name, metav1.DeleteOptions{DryRun: dry}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
