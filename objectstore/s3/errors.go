package s3

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/diapause/diapause/objectstore"
)

// What servers say, by what it means to us.
var (
	fullCodes = []string{"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "ServiceQuotaExceededException", "StorageFull", "InsufficientStorage"}

	deniedCodes = []string{
		"AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"InvalidToken", "ExpiredToken", "AuthorizationHeaderMalformed", "NotSignedUp", "InvalidSecurity",
	}
)

// kind wraps what the server said with the port's error for it.
func kind(err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	switch {
	case missing(err):
		return fmt.Errorf("%w (%s)", objectstore.ErrNotFound, r.Code)
	case r.Code == minio.PreconditionFailed || r.StatusCode == http.StatusPreconditionFailed || r.Code == "ConditionalRequestConflict":
		return objectstore.ErrExists
	case slices.Contains(fullCodes, r.Code) || r.StatusCode == http.StatusInsufficientStorage:
		return fmt.Errorf("%w: %s", objectstore.ErrFull, r.Message)
	case slices.Contains(deniedCodes, r.Code) || r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%w: %s (%s): check the access key and its policy", objectstore.ErrDenied, r.Message, r.Code)
	}
	return err
}

func missing(err error) bool {
	r := minio.ToErrorResponse(err)
	return err != nil && (r.Code == minio.NoSuchKey || r.Code == "NoSuchVersion" || r.Code == "NotFound" || r.StatusCode == http.StatusNotFound && r.Code != minio.NoSuchBucket)
}

func notImplemented(err error) bool {
	r := minio.ToErrorResponse(err)
	return err != nil && (r.Code == "NotImplemented" || r.StatusCode == http.StatusNotImplemented)
}
