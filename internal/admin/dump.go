package admin

// The types of /snapshot. They are apart from those of mesh, so that these can
// change and the page stays what scripts know.

type snapshotDump struct {
	Version   uint64         `json:"version"`
	Gateway   gatewayDump    `json:"gateway"`
	Rejected  []problemDump  `json:"rejected"`
	Conflicts []problemDump  `json:"conflicts"`
	Services  []serviceDump  `json:"services"`
	Workloads []workloadDump `json:"workloads"`
}

type gatewayDump struct {
	Namespace          string       `json:"namespace"`
	Name               string       `json:"name"`
	ServesServices     bool         `json:"servesServices"`
	ServesWorkloads    bool         `json:"servesWorkloads"`
	TrustDomain        string       `json:"trustDomain"`
	TrustDomainAliases []string     `json:"trustDomainAliases,omitempty"`
	Locality           localityDump `json:"locality,omitzero"`
}

type problemDump struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

type localityDump struct {
	Region string `json:"region,omitempty"`
	Zone   string `json:"zone,omitempty"`
	Node   string `json:"node,omitempty"`
}

type workloadDump struct {
	UID         string       `json:"uid"`
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	Addresses   []string     `json:"addresses"`
	Identity    string       `json:"identity"`
	HBONE       bool         `json:"hbone"`
	Ready       bool         `json:"ready"`
	Attached    bool         `json:"attached"`
	HostNetwork bool         `json:"hostNetwork,omitempty"`
	Locality    localityDump `json:"locality,omitzero"`
}

type serviceDump struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Hostname  string     `json:"hostname"`
	Addresses []string   `json:"addresses"`
	Attached  bool       `json:"attached"`
	SANs      []string   `json:"subjectAltNames,omitempty"`
	Locality  string     `json:"locality,omitempty"`
	Ports     []portDump `json:"ports"`
}

type portDump struct {
	Number    uint16         `json:"number"`
	Name      string         `json:"name,omitempty"`
	Protocol  string         `json:"protocol"`
	Endpoints []endpointDump `json:"endpoints"`
	// Routes absent: all requests go to this port's endpoints.
	Routes *routesDump `json:"routes,omitempty"`
	// ConsumerRoutes are instead of Routes for clients of a namespace.
	ConsumerRoutes map[string]*routesDump `json:"consumerRoutes,omitempty"`
	// Policies restrict who may use the port. Absent: everybody may.
	Policies []policyDump `json:"policies,omitempty"`
}

type policyDump struct {
	Policy  string `json:"policy"` // "namespace/name"
	Action  string `json:"action"`
	DryRun  bool   `json:"dryRun,omitempty"`
	Rules   any    `json:"rules,omitempty"`
	Invalid string `json:"invalid,omitempty"` // denies everything, for this reason
}

type endpointDump struct {
	Address  string   `json:"address,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Workload string   `json:"workload"`
	Identity string   `json:"identity"`
	SANs     []string `json:"subjectAltNames,omitempty"`
	HBONE    bool     `json:"hbone"`
	InFlight int64    `json:"inFlight"`
}

type routesDump struct {
	HTTP []ruleDump `json:"http,omitempty"`
	GRPC []ruleDump `json:"grpc,omitempty"`
	TLS  []ruleDump `json:"tls,omitempty"`
	TCP  *ruleDump  `json:"tcp,omitempty"`
}

type ruleDump struct {
	Route    string        `json:"route"`
	Rule     string        `json:"rule"`
	Hosts    []string      `json:"hosts,omitempty"`
	Matches  []string      `json:"matches,omitempty"`
	Filters  []filterDump  `json:"filters,omitempty"`
	Backends []backendDump `json:"backends,omitempty"`
	Timeouts *timeoutsDump `json:"timeouts,omitempty"`
	Retry    *retryDump    `json:"retry,omitempty"`
	Invalid  string        `json:"invalid,omitempty"` // answers 500, for this reason
}

type filterDump struct {
	Type   string `json:"type"`
	Config any    `json:"config"`
}

type backendDump struct {
	Service string       `json:"service"`
	Port    uint16       `json:"port"`
	Weight  uint32       `json:"weight"`
	Filters []filterDump `json:"filters,omitempty"`
	Invalid string       `json:"invalid,omitempty"` // its share is answered 500, for this reason
}

type timeoutsDump struct {
	Request        string `json:"request,omitempty"`
	BackendRequest string `json:"backendRequest,omitempty"`
}

type retryDump struct {
	Attempts int    `json:"attempts"`
	Backoff  string `json:"backoff,omitempty"`
	Codes    []int  `json:"codes,omitempty"`
}
