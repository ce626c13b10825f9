package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// eventReason is what the events say in one word.
	eventReason = "FenceProxySkipped"
	// eventTimeout bounds storing one.
	eventTimeout = 5 * time.Second
)

// events stores an event for each pod that was skipped: of what made the pod, a ReplicaSet or a Job, say, for the pod itself
// has no name yet; else of the pod. Many of a kind become one.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	http        *http.Client
}

// startEvents begins to store events, as the pod's service account or whom the kubeconfig names. The caller stops it.
func startEvents(kubeconfig string, log *slog.Logger) (*events, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.UserAgent = "fence-proxy-webhook"
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	ctx := klog.NewContext(context.Background(), logr.FromSlogHandler(log.Handler()))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(eventSink{client})
	return &events{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "fence-proxy-webhook"}),
		http:        httpClient,
	}, nil
}

// stop ends it; an event that is on its way may be lost.
func (e *events) stop() {
	e.broadcaster.Shutdown()
	utilnet.CloseIdleConnectionsFor(e.http.Transport)
}

func (e *events) skipped(namespace string, pod *corev1.Pod, d Decision) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		about.APIVersion, about.Kind, about.Name, about.UID = owner.APIVersion, owner.Kind, owner.Name, owner.UID
	}
	if about.Name == "" {
		about.Name = pod.GenerateName
	}
	e.recorder.Eventf(about, corev1.EventTypeWarning, eventReason, "fence-proxy is not injected: %s: %s", d.Reason, d.Detail)
}

// eventSink stores events. client-go's own brings the types of all of Kubernetes along.
type eventSink struct{ client rest.Interface }

// Create implements record.EventSink.
func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.do(s.client.Post().Namespace(e.Namespace).Body(e))
}

// Update implements record.EventSink.
func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.do(s.client.Put().Namespace(e.Namespace).Name(e.Name).Body(e))
}

// Patch implements record.EventSink.
func (s eventSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.do(s.client.Patch(types.StrategicMergePatchType).Namespace(e.Namespace).Name(e.Name).Body(data))
}

func (s eventSink) do(request *rest.Request) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	stored := new(corev1.Event)
	return stored, request.Resource("events").Do(ctx).Into(stored)
}
