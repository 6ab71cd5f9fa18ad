package translate

// Use is what becomes of a field.
type Use uint8

const (
	// Used means that it is in effect.
	Used Use = iota
	// Refused means that it cannot be left out without changing what is meant, so what carries it fails closed.
	Refused
	// Idle means legal, but nothing here acts on it; a warning says so where it is set.
	Idle
	// Elsewhere means that it is for others (the cluster, ztunnel, the controller that deploys waypoints), or for people.
	Elsewhere
)

// String is the word for tables.
func (u Use) String() string {
	return [...]string{"used", "refused", "does nothing", "for others"}[u]
}

// Field tells what becomes of a field and of all below it that have no entry of their own.
type Field struct {
	Path string // "spec.rules[].matches[].path"
	Use  Use
	Note string
	// Default is a value of an idle field that asks for nothing and is not warned of.
	Default string
}

// KindFields are the fields of one kind.
type KindFields struct {
	Kind string
	// Whole: every field of the kind is covered. For the large core kinds only the fields that are read are listed; the
	// others are for others.
	Whole  bool
	Fields []Field
}

// Entries that several kinds have in common.
var (
	parentFields = []Field{
		{Path: "spec.parentRefs[]", Note: "Service, ServiceEntry, or the Gateway itself; sectionName is a port's or a listener's name"},
		{Path: "spec.useDefaultGateways", Use: Idle, Note: "a waypoint is no default gateway; name it in parentRefs"},
	}
	backendFields = []Field{
		{Path: "spec.rules[].name"},
		{Path: "spec.rules[].backendRefs[]", Note: "Service, or networking.istio.io Hostname; one that cannot be used answers 500 for its share"},
	}
	attachLabels = []Field{
		{Path: "metadata.labels[istio.io/use-waypoint]", Note: "beats the Namespace's; none opts out"},
		{Path: "metadata.labels[istio.io/use-waypoint-namespace]"},
	}
	telemetryLabels = []Field{
		{Path: "metadata.labels[service.istio.io/canonical-name]", Note: "else app.kubernetes.io/name, app, the workload's name"},
		{Path: "metadata.labels[service.istio.io/canonical-revision]", Note: "else app.kubernetes.io/version, version, latest"},
	}
	machineFields = []string{"address", "ports", "labels", "locality", "weight", "serviceAccount"}
)

const noNetworks = "other networks' gateways are not used: the address is dialled as it is"

// fields says of every kind what becomes of its fields. The page docs/fields.md is made from it, warnings about idle fields
// come from it, and a test holds it against the Go types.
var fields = []KindFields{
	{kindGateway, true, []Field{
		{Path: "metadata.labels[istio.io/waypoint-for]", Note: "service (default), workload, all, none; else the GatewayClass's label"},
		{Path: "spec.gatewayClassName"},
		{Path: "spec.listeners[].name"},
		{Path: "spec.listeners[].port", Note: "one listener on 15008"},
		{Path: "spec.listeners[].protocol", Note: "HBONE"},
		{Path: "spec.listeners[].allowedRoutes", Note: "also says which namespaces may use the waypoint"},
		{Path: "spec.listeners[].hostname", Use: Idle, Note: "services are told apart by address and port"},
		{Path: "spec.listeners[].tls", Use: Idle, Note: "HBONE is mutual TLS with mesh certificates"},
		{Path: "spec.listeners[].filters", Use: Idle, Note: "put filters on routes"},
		{Path: "spec.addresses", Use: Elsewhere},
		{Path: "spec.infrastructure", Use: Elsewhere},
		{Path: "spec.allowedListeners", Use: Idle, Note: "a waypoint has no ListenerSets"},
		{Path: "spec.tls", Use: Idle, Note: "HBONE is mutual TLS with mesh certificates"},
		{Path: "spec.defaultScope", Use: Idle, Note: "a waypoint is no default gateway", Default: "None"},
	}},
	{kindGatewayClass, true, []Field{
		{Path: "metadata.labels[istio.io/waypoint-for]", Note: "default for its Gateways"},
		{Path: "spec", Use: Elsewhere},
	}},
	{kindHTTPRoute, true, join(parentFields, backendFields, []Field{
		{Path: "spec.hostnames[]", Note: "under a Gateway parent; ignored, with a warning, under a Service"},
		{Path: "spec.rules[].matches[]"},
		{Path: "spec.rules[].filters[]"},
		{Path: "spec.rules[].filters[].externalAuth", Use: Refused, Note: "the rule answers 500"},
		{Path: "spec.rules[].filters[].extensionRef", Use: Refused, Note: "the rule answers 500"},
		{Path: "spec.rules[].backendRefs[].filters[]", Note: "header modifiers and URLRewrite; others: the rule answers 500"},
		{Path: "spec.rules[].timeouts"},
		{Path: "spec.rules[].retry"},
		{Path: "spec.rules[].sessionPersistence", Use: Refused, Note: "the rule answers 500"},
	})},
	{kindGRPCRoute, true, join(parentFields, backendFields, []Field{
		{Path: "spec.hostnames[]", Note: "as in HTTPRoute"},
		{Path: "spec.rules[].matches[]"},
		{Path: "spec.rules[].filters[]"},
		{Path: "spec.rules[].filters[].extensionRef", Use: Refused, Note: "the rule fails with UNAVAILABLE"},
		{Path: "spec.rules[].sessionPersistence", Use: Refused, Note: "the rule fails with UNAVAILABLE"},
	})},
	{kindTCPRoute, true, join(parentFields, backendFields)},
	{kindTLSRoute, true, join(parentFields, backendFields, []Field{
		{Path: "spec.hostnames[]", Note: "the server name of the ClientHello"},
	})},
	{kindReferenceGrant, true, []Field{{Path: "spec", Note: "for backends of routes whose parent is the Gateway"}}},
	{kindAuthorizationPolicy, true, []Field{
		{Path: "metadata.annotations[istio.io/dry-run]"},
		{Path: "spec.targetRefs[]", Note: "Service, ServiceEntry, Gateway; GatewayClass in the root namespace"},
		{Path: "spec.targetRef"},
		{Path: "spec.selector", Use: Elsewhere, Note: "ztunnel's, as are policies without targets; a warning says so"},
		{Path: "spec.action", Note: "CUSTOM: what matches is denied, as no authorizer is asked"},
		{Path: "spec.provider"},
		{Path: "spec.rules[]", Note: "request.auth.* and requestPrincipals: no token is validated, every request counts as one without"},
	}},
	{kindServiceEntry, true, join(attachLabels, []Field{
		{Path: "spec.hosts[]"},
		{Path: "spec.addresses[]", Note: "single addresses; blocks are left out with a warning. Without any: status.addresses"},
		{Path: "spec.ports[]"},
		{Path: "spec.location", Use: Elsewhere},
		{Path: "spec.resolution", Note: "STATIC, DNS and DNS_ROUND_ROBIN; hosts with NONE or DYNAMIC_DNS have no endpoints"},
		{Path: "spec.workloadSelector", Note: "selects WorkloadEntries and Pods"},
		{Path: "spec.exportTo[]", Use: Idle, Note: "every client of the waypoint may use the hosts", Default: "*"},
		{Path: "spec.subjectAltNames[]", Note: "names that an endpoint's certificate may carry"},
		{Path: "spec.endpoints[].network", Use: Idle, Note: noNetworks},
		{Path: "status.addresses[]"},
	}, below("spec.endpoints[].", machineFields))},
	{kindWorkloadEntry, true, join(attachLabels, telemetryLabels, []Field{
		{Path: "metadata.labels[networking.istio.io/tunnel]", Note: "http: the machine takes HBONE"},
		{Path: "spec.network", Use: Idle, Note: noNetworks},
		{Path: "status.conditions[]", Note: "Healthy"},
	}, below("spec.", machineFields))},
	{kindService, true, join(attachLabels, []Field{
		{Path: "metadata.annotations[networking.istio.io/traffic-distribution]", Note: "where spec.trafficDistribution is not set"},
		{Path: "spec.type", Note: "an ExternalName Service is not served"},
		{Path: "spec.clusterIP"},
		{Path: "spec.clusterIPs[]"},
		{Path: "spec.ipFamilies[]"},
		{Path: "spec.selector"},
		{Path: "spec.ports[].name", Note: "its prefix tells the protocol where appProtocol is not set"},
		{Path: "spec.ports[].appProtocol", Note: "else the EndpointSlices' appProtocol"},
		{Path: "spec.ports[].protocol", Note: "TCP; others are left out with a warning"},
		{Path: "spec.ports[].port"},
		{Path: "spec.ports[].targetPort"},
		{Path: "spec.ports[].nodePort", Use: Elsewhere},
		{Path: "spec.publishNotReadyAddresses"},
		{Path: "spec.internalTrafficPolicy", Note: "Local: endpoints on the waypoint's node are preferred"},
		{Path: "spec.trafficDistribution"},
		{Path: "spec.sessionAffinity", Use: Idle, Note: "each request goes to an endpoint of its own", Default: "None"},
		{Path: "spec.sessionAffinityConfig", Use: Elsewhere, Note: "goes with sessionAffinity"},
		{Path: "spec", Use: Elsewhere},
	})},
	{kindEndpointSlice, true, []Field{
		{Path: "metadata.labels[kubernetes.io/service-name]"},
		{Path: "addressType", Note: "the endpoints of an FQDN slice are not used"},
		{Path: "endpoints[].addresses[]"},
		{Path: "endpoints[].conditions.ready"},
		{Path: "endpoints[].targetRef", Note: "a Pod of the slice's namespace gives the endpoint its identity"},
		{Path: "endpoints[].nodeName"},
		{Path: "endpoints[].zone"},
		{Path: "endpoints[]", Use: Elsewhere},
		{Path: "ports[]"},
	}},
	{kindPod, false, join(attachLabels, telemetryLabels, []Field{
		{Path: "metadata.annotations[ambient.istio.io/redirection]", Note: "enabled: reached by HBONE through the node's ztunnel"},
		{Path: "metadata.labels[networking.istio.io/tunnel]", Note: "http: the pod takes HBONE itself"},
		{Path: "metadata.ownerReferences"},
		{Path: "metadata.deletionTimestamp"},
		{Path: "spec.serviceAccountName", Note: "the identity that the endpoint must prove"},
		{Path: "spec.nodeName"},
		{Path: "spec.hostNetwork"},
		{Path: "spec.containers[].ports[]", Note: "for target ports by name"},
		{Path: "spec.initContainers[].ports[]"},
		{Path: "status.phase"},
		{Path: "status.podIP"},
		{Path: "status.podIPs[]"},
		{Path: "status.conditions[]", Note: "Ready"},
	})},
	{kindNode, false, []Field{
		{Path: "metadata.labels[topology.kubernetes.io/region]"},
		{Path: "metadata.labels[topology.kubernetes.io/zone]"},
		{Path: "metadata.labels[topology.istio.io/subzone]"},
	}},
	{kindNamespace, false, []Field{
		{Path: "metadata.labels[istio.io/use-waypoint]", Note: "for all in it that carry no such label"},
		{Path: "metadata.labels[istio.io/use-waypoint-namespace]"},
		{Path: "metadata.labels", Note: "for allowedRoutes with a selector"},
	}},
}

func join(lists ...[]Field) []Field {
	var all []Field
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func below(prefix string, names []string) []Field {
	list := make([]Field, 0, len(names))
	for _, name := range names {
		list = append(list, Field{Path: prefix + name})
	}
	return list
}

// Fields lists what becomes of the fields of every kind that is read.
func Fields() []KindFields { return fields }
