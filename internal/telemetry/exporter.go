package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The exporters read the variables themselves (headers, timeouts, certificates, compression …). None connects before
// it has something to send.

func (s *signal) spans(ctx context.Context) (sdktrace.SpanExporter, error) {
	if s.protocol == protocolGRPC {
		return otlptracegrpc.New(ctx, to(s, otlptracegrpc.WithEndpointURL)...)
	}
	return otlptracehttp.New(ctx, to(s, otlptracehttp.WithEndpointURL)...)
}

func (s *signal) points(ctx context.Context) (sdkmetric.Exporter, error) {
	if s.protocol == protocolGRPC {
		return otlpmetricgrpc.New(ctx, to(s, otlpmetricgrpc.WithEndpointURL)...)
	}
	return otlpmetrichttp.New(ctx, to(s, otlpmetrichttp.WithEndpointURL)...)
}

func (s *signal) records(ctx context.Context) (sdklog.Exporter, error) {
	if s.protocol == protocolGRPC {
		return otlploggrpc.New(ctx, to(s, otlploggrpc.WithEndpointURL)...)
	}
	return otlploghttp.New(ctx, to(s, otlploghttp.WithEndpointURL)...)
}

// to is the option that names the endpoint, where no variable does.
func to[Option any](s *signal, withURL func(string) Option) []Option {
	if s.endpoint == "" {
		return nil
	}
	return []Option{withURL(s.endpoint)}
}
