package schemas

// Container is what a session is on its host where it is a container.
type Container struct {
	Name  string   `json:"name"`            // as the engine calls it
	Image string   `json:"image"`           // that it was made from
	Ports []string `json:"ports,omitempty"` // published, as "127.0.0.1:8080->80/tcp"; without "->" where no host port is bound
}
