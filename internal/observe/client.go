package observe

// Client is who sends commands: connections with the same are those of one client.
type Client struct {
	Address string `json:"address"` // without the port
	User    string `json:"user,omitempty"`
	Library string `json:"library,omitempty"` // as it says in CLIENT SETINFO, with its version
	Name    string `json:"name,omitempty"`    // CLIENT SETNAME
}

// others stands for clients beyond those that are told apart.
var others = Client{Name: "(others)"}

// String names the client for people.
func (c Client) String() string {
	text := c.Library
	if text == "" {
		text = "unknown library"
	}
	if c.Name != "" {
		text = `"` + c.Name + `" ` + text
	}
	if c.User != "" {
		text += " as " + c.User
	}
	return text + " from " + c.Address
}

// group is the connections of one client.
type group struct {
	client Client
	pools  bool // its writes come over other connections than its reads
}

// group returns the group of a client. Called with mu held.
func (o *Observer) group(c Client) *group {
	g := o.groups[c]
	if g == nil {
		if len(o.groups) >= maxClients {
			o.left.Clients++
			c = others
			if other := o.groups[c]; other != nil {
				return other
			}
		}
		g = &group{client: c}
		o.groups[c] = g
	}
	return g
}
