// A cluster that speaks Kafka's protocol, from the authors of a Kafka client, and a consumer that prints what
// it is sent: one line per record, the key, a tab, the value. Arguments: the port, the topic.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.SeedTopics(3, os.Args[2]),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "ann", "pencil"), kfake.Superuser("PLAIN", "admin", "admin"))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(os.Args[2]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SASL(login()))
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachRecord(func(r *kgo.Record) { fmt.Printf("%s\t%s\n", r.Key, r.Value) })
	}
}
