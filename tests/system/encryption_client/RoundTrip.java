// What test_encryption_clients.py runs: the encryption clients of AWS against a server, from
// arguments ENDPOINT ACCESS-KEY SECRET-KEY BUCKET. Ends with status 1 and a stack trace if anything differs.

import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.s3.AmazonS3Encryption;
import com.amazonaws.services.s3.AmazonS3EncryptionClientBuilder;
import com.amazonaws.services.s3.model.CryptoConfiguration;
import com.amazonaws.services.s3.model.CryptoMode;
import com.amazonaws.services.s3.model.CryptoStorageMode;
import com.amazonaws.services.s3.model.EncryptionMaterials;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.StaticEncryptionMaterialsProvider;
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.util.Arrays;
import java.util.Random;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.encryption.s3.S3EncryptionClient;

public class RoundTrip {
    static void same(String what, byte[] want, byte[] got) {
        if (!Arrays.equals(want, got)) {
            throw new AssertionError(what + ": " + got.length + " bytes, " + want.length + " were stored");
        }
        System.out.println(what);
    }

    public static void main(String[] args) throws Exception {
        String endpoint = args[0], bucket = args[3];
        byte[] keyBytes = new byte[32];
        new Random(7).nextBytes(keyBytes);
        SecretKey key = new SecretKeySpec(keyBytes, "AES");

        var old = new BasicAWSCredentials(args[1], args[2]);
        for (CryptoMode mode : new CryptoMode[] {CryptoMode.EncryptionOnly, CryptoMode.AuthenticatedEncryption}) {
            for (CryptoStorageMode where : CryptoStorageMode.values()) {
                AmazonS3Encryption client = AmazonS3EncryptionClientBuilder.standard()
                    .withEncryptionMaterials(new StaticEncryptionMaterialsProvider(new EncryptionMaterials(key)))
                    .withCryptoConfiguration(new CryptoConfiguration(mode).withStorageMode(where))
                    .withEndpointConfiguration(new EndpointConfiguration(endpoint, "us-east-1"))
                    .withPathStyleAccessEnabled(true)
                    .withCredentials(new AWSStaticCredentialsProvider(old))
                    .build();
                for (int size : new int[] {0, 15, 16, 70_000, 1_500_000}) {
                    byte[] body = new byte[size];
                    new Random(size).nextBytes(body);
                    String name = "v1/" + mode + "/" + where + "/" + size;
                    ObjectMetadata metadata = new ObjectMetadata();
                    metadata.setContentLength(size);
                    metadata.addUserMetadata("mine", "kept");
                    client.putObject(bucket, name, new ByteArrayInputStream(body), metadata);
                    var object = client.getObject(bucket, name);
                    same(name, body, object.getObjectContent().readAllBytes());
                    if (!"kept".equals(object.getObjectMetadata().getUserMetaDataOf("mine"))) {
                        throw new AssertionError(name + ": its metadata are gone");
                    }
                }
                client.shutdown();
            }
        }

        var credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create(args[1], args[2]));
        S3Client plain = S3Client.builder().endpointOverride(URI.create(endpoint)).forcePathStyle(true)
            .region(Region.US_EAST_1).credentialsProvider(credentials).build();
        S3AsyncClient async = S3AsyncClient.builder().endpointOverride(URI.create(endpoint)).forcePathStyle(true)
            .region(Region.US_EAST_1).credentialsProvider(credentials).build();
        S3Client client = S3EncryptionClient.builder().wrappedClient(plain).wrappedAsyncClient(async).aesKey(key)
            .enableLegacyUnauthenticatedModes(true).enableLegacyWrappingAlgorithms(true).build();
        for (int size : new int[] {0, 15, 16, 70_000, 1_500_000}) {
            byte[] body = new byte[size];
            new Random(size).nextBytes(body);
            String name = "v3/" + size;
            client.putObject(r -> r.bucket(bucket).key(name), RequestBody.fromBytes(body));
            same(name, body, client.getObjectAsBytes(r -> r.bucket(bucket).key(name)).asByteArray());
            if (size > 1000) {
                byte[] range = client.getObjectAsBytes(r -> r.bucket(bucket).key(name).range("bytes=100-999")).asByteArray();
                same(name + ", a range", Arrays.copyOfRange(body, 100, 1000), range);
            }
            // What the client before wrote in AES-CBC is read by this one, on a copy too.
            String before = "v1/EncryptionOnly/ObjectMetadata/" + size;
            same(before + " by v3", body, client.getObjectAsBytes(r -> r.bucket(bucket).key(before)).asByteArray());
            plain.copyObject(r -> r.sourceBucket(bucket).sourceKey(before).destinationBucket(bucket).destinationKey("copy/" + size));
            same("copy/" + size, body, client.getObjectAsBytes(r -> r.bucket(bucket).key("copy/" + size)).asByteArray());
        }
        client.close();
        async.close();
        plain.close();
    }
}
