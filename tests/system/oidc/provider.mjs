// A real OpenID Connect provider for the tests, on loopback.
//
// Reads one JSON document from its argument: {port, keys: private JWKS, clients: [{id, secret, redirects}],
// accounts: {name: {claim: value}}}. Anybody may sign in as anybody: the tests ask as a browser would.
import { readFileSync } from 'node:fs';
import Provider from 'oidc-provider';

const plan = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const issuer = `http://127.0.0.1:${plan.port}`;
const claims = [...new Set(Object.values(plan.accounts).flatMap((a) => Object.keys(a)))];

const provider = new Provider(issuer, {
  clients: plan.clients.map((c) => ({
    client_id: c.id,
    client_secret: c.secret,
    redirect_uris: c.redirects,
    post_logout_redirect_uris: c.after ?? [],
    id_token_signed_response_alg: c.alg ?? 'RS256',
  })),
  jwks: { keys: plan.keys },
  cookies: { keys: ['only-for-tests'] },
  claims: { openid: ['sub', ...(plan.hidden ? [] : claims)], more: claims },
  scopes: ['openid', 'more', 'offline_access'],
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  features: { devInteractions: { enabled: true } },
  findAccount: (_ctx, id) => ({
    accountId: id,
    // With `hidden`, further claims are at the userinfo endpoint only.
    claims: (use) => ({ sub: id, ...(plan.hidden && use === 'id_token' ? {} : plan.accounts[id]) }),
  }),
  // Nobody is asked for consent.
  loadExistingGrant: async (ctx) => {
    const grant = new ctx.oidc.provider.Grant({
      clientId: ctx.oidc.client.clientId,
      accountId: ctx.oidc.session.accountId,
    });
    grant.addOIDCScope('openid more');
    await grant.save();
    return grant;
  },
  ttl: { IdToken: plan.life ?? 3600 },
});
provider.on('server_error', (_ctx, error) => console.error(error));
provider.listen(plan.port, '127.0.0.1', () => console.log('ready'));
