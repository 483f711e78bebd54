package bench

import (
	"context"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/diapause/diapause/objectstore/storetest/server"
)

// bucket is the S3 server that all store to.
type bucket struct {
	*server.Server
	client *minio.Client
}

func startBucket(ctx context.Context, dir string) (*bucket, error) {
	s, err := server.Start(ctx, server.MinIO, dir)
	if err != nil {
		return nil, err
	}
	client, err := minio.New(s.Address(), &minio.Options{Creds: credentials.NewStaticV4(server.AccessKey, server.SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return &bucket{s, client}, nil
}

// put stores what r gives, of any length, in parts that are uploaded beside each
// other.
func (b *bucket) put(ctx context.Context, name string, r io.Reader) error {
	_, err := b.client.PutObject(ctx, server.Bucket, name, r, -1, minio.PutObjectOptions{
		PartSize: 16 << 20, NumThreads: 4, ConcurrentStreamParts: true,
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// size is the sum of the objects below a prefix.
func (b *bucket) size(ctx context.Context, prefix string) (sum int64, err error) {
	for o := range b.client.ListObjects(ctx, server.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return 0, fmt.Errorf("list %s: %w", prefix, o.Err)
		}
		sum += o.Size
	}
	return sum, nil
}
