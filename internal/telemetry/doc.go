// Package telemetry turns flows into metrics, access log lines, spans and a live
// view. Each is a [flow.Observer] of its own; the product lists those that it
// wants in a [flow.Observers].
//
//   - [Metrics] counts Istio's metrics under their exact names and labels, and
//     pulls what the parts of the proxy say of themselves at a scrape.
//   - [AccessLog] writes Istio's default line, as text or JSON.
//   - [Tracing] samples, and exports one SERVER span per request by OTLP.
//   - [Live] broadcasts flows to those that watch.
//
// All of them run in turns of connection readers, so none blocks, and a flow
// costs no allocation once its series are known and unless its trace is sampled.
// What cannot be kept up with is dropped and counted. Strings of a flow may be
// views of buffers that are used again: what outlives the call is cloned.
package telemetry
