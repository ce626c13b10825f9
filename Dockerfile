# syntax=docker/dockerfile:1
#
#	docker buildx build --build-arg VERSION=v1.2.3 --platform linux/amd64,linux/arm64 --tag … .
#
# The binary is the same, byte for byte, for the same sources and VERSION; make image shows it, and tests it.

FROM --platform=$BUILDPLATFORM golang:1.26.7-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# The bill of materials is of the target's binary, and the tool that writes it runs here.
COPY scripts ./scripts
RUN scripts/tool.sh github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod v1.10.0
COPY cmd ./cmd
COPY internal ./internal
ARG TARGETOS TARGETARCH VERSION=dev
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH scripts/binary.sh /out/fence-proxy "$VERSION" \
	&& scripts/sbom.sh /out/fence-proxy /out/sbom.cdx.json "$VERSION"

# No shell, no package manager: certificates, time zones and a user.
FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION=dev
LABEL org.opencontainers.image.title="fence-proxy" \
	org.opencontainers.image.description="Makes shared agent context in Redis safe" \
	org.opencontainers.image.source="https://github.com/fence-proxy/fence-proxy" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.version="$VERSION"
COPY --from=build /out/fence-proxy /fence-proxy
COPY --from=build /out/sbom.cdx.json /usr/share/doc/fence-proxy/sbom.cdx.json
USER 65532:65532
EXPOSE 6380 9380
ENTRYPOINT ["/fence-proxy"]
