package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// batchMost is how many spans or log records are packed at a time, unless a variable says otherwise: packing takes the
// processor from the clients, since the proxy has one thread.
const batchMost = 128

// Options are what a Telemetry is made of.
type Options struct {
	Settings
	Name    string // the proxy's, in its messages
	Version string // the program's
}

// Telemetry is what a proxy sends to a collector. A nil one sends nothing.
type Telemetry struct {
	settings Settings
	resource *resource.Resource
	spans    *sdktrace.TracerProvider // nil: no traces
	delivery *delivery                // of spans
	reader   sdkmetric.Reader         // nil: no metrics
	logs     *sdklog.LoggerProvider   // nil: no logs
	to       []string                 // what is sent how, for the log
	notes    []string

	errors *complaints

	mu     sync.Mutex
	tracer *Tracer
	ids    *ids // nil before Trace
}

// Start returns what the settings and the variables ask for, nil if that is nothing. It does not wait for the collector.
// The caller closes it.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	traces, metrics, logs, notes, err := o.signals()
	if err != nil {
		return nil, err
	}
	if traces == nil && metrics == nil && logs == nil {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	t := &Telemetry{settings: o.Settings, notes: notes, errors: newComplaints()}
	if t.resource, err = describe(ctx, o); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		*signal
		begin func(context.Context, *signal) error
	}{{traces, t.beginTraces}, {metrics, t.beginMetrics}, {logs, t.beginLogs}} {
		if s.signal == nil {
			continue
		}
		if err := s.begin(ctx, s.signal); err != nil {
			t.Close(ctx)
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		t.to = append(t.to, s.String())
	}
	otel.SetErrorHandler(t.errors)
	return t, nil
}

// describe says what sends. The variables win.
func describe(ctx context.Context, o Options) (*resource.Resource, error) {
	host, _ := os.Hostname()
	r, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("fence-proxy"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Name),
			semconv.HostName(host), semconv.ProcessPID(os.Getpid()), attribute.String("fence.proxy", o.Name)),
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

func (t *Telemetry) beginTraces(ctx context.Context, s *signal) error {
	exporter, err := s.spans(ctx)
	if err != nil {
		return err
	}
	t.delivery = newDelivery(exporter)
	batches := []sdktrace.BatchSpanProcessorOption{sdktrace.WithBlocking()} // only the tracer's goroutine waits, and it has a bound
	if variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") == "" {
		batches = append(batches, sdktrace.WithMaxExportBatchSize(batchMost))
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(t.resource), sdktrace.WithIDGenerator(generator{}), sdktrace.WithBatcher(t.delivery, batches...),
	}
	if variable("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.settings.Sample))))
	}
	t.spans = sdktrace.NewTracerProvider(options...)
	return nil
}

func (t *Telemetry) beginMetrics(ctx context.Context, s *signal) error {
	exporter, err := s.points(ctx)
	if err != nil {
		return err
	}
	t.reader = sdkmetric.NewPeriodicReader(exporter)
	return nil
}

func (t *Telemetry) beginLogs(ctx context.Context, s *signal) error {
	exporter, err := s.records(ctx)
	if err != nil {
		return err
	}
	var batches []sdklog.BatchProcessorOption
	if variable("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE") == "" {
		batches = append(batches, sdklog.WithExportMaxBatchSize(batchMost))
	}
	t.logs = sdklog.NewLoggerProvider(sdklog.WithResource(t.resource), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter, batches...)))
	return nil
}

// Metrics are the options of the metrics' provider, which has the same instruments for all its readers.
func (t *Telemetry) Metrics() []sdkmetric.Option {
	if t == nil || t.reader == nil {
		return nil
	}
	return []sdkmetric.Option{sdkmetric.WithReader(t.reader), sdkmetric.WithResource(t.resource)}
}

// Say logs what is sent where.
func (t *Telemetry) Say(log *slog.Logger) {
	if t == nil {
		return
	}
	log.Info("telemetry is sent", "signals", t.to)
	for _, note := range t.notes {
		log.Warn(note)
	}
}

// Tracing says what a tracer needs besides the settings.
type Tracing struct {
	Salt  string // shared by all proxies of a Redis
	Notes Notes
	// Server is the upstream's address, and Port its port; 0 for a socket.
	Server string
	Port   int
}

// Trace begins to make spans; nil if no traces are sent. Close ends it. It is called once.
func (t *Telemetry) Trace(with Tracing) *Tracer {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	made := newIDs(with.Salt)
	t.ids = &made
	if t.spans == nil {
		return nil
	}
	common := []attribute.KeyValue{semconv.DBSystemNameRedis}
	if with.Server != "" {
		common = append(common, semconv.ServerAddress(with.Server))
	}
	if with.Port > 0 {
		common = append(common, semconv.ServerPort(with.Port))
	}
	t.tracer = (&Tracer{
		ids: made, tracer: t.spans.Tracer("fence-proxy"), notes: with.Notes, names: t.settings.SessionNames, common: common,
	}).begin()
	return t.tracer
}

// Lost is how many sequences were dropped, since there was no room for them, and how many spans did not arrive at the collector.
func (t *Telemetry) Lost() (sequences, spans int64) {
	if t == nil {
		return 0, 0
	}
	t.mu.Lock()
	tracer := t.tracer
	t.mu.Unlock()
	if tracer == nil {
		return 0, 0
	}
	return tracer.Dropped(), t.delivery.failed.Load()
}

// Close sends what there is until ctx ends.
func (t *Telemetry) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.mu.Lock()
	tracer := t.tracer
	t.mu.Unlock()
	var all sync.WaitGroup
	if t.spans != nil {
		all.Go(func() {
			stop := context.AfterFunc(ctx, t.delivery.breakOff) // then there is nothing more to wait for
			defer stop()
			tracer.Close()
			_ = t.spans.Shutdown(context.WithoutCancel(ctx))
		})
	}
	if t.reader != nil {
		all.Go(func() { _ = t.reader.Shutdown(ctx) }) // unless the metrics have done that
	}
	if t.logs != nil {
		all.Go(func() { _ = t.logs.Shutdown(ctx) })
	}
	all.Wait()
}

// hash is the name under which a session is sent, "" as long as there is no salt.
func (t *Telemetry) hash(rule, session string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids == nil {
		return ""
	}
	return t.ids.session(rule, session)
}
